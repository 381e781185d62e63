#pragma once

#include "evaluate/text_row.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace cairn::evaluate {

/// The ways in which rows may be put into batches.
struct BatchShape {
  std::int64_t rows = 8;       ///< of a micro batch
  std::int64_t ranks = 1;      ///< that share the rows out
  std::int64_t at_once = 1;    ///< micro batches that a rank runs in one go
  std::int64_t longest = 1024; ///< tokens that the model reads at most
  /// LongRoPE: rows of up to so many tokens do not go with longer ones, whose
  /// positions differ from theirs.
  std::optional<std::int64_t> longest_short{};
};

/// Rows that all ranks together run in one go. Each rank has micro batches of
/// the same shape; places without a row are filled up.
struct RowBatch {
  std::vector<std::size_t> rows; ///< numbers of the rows
  std::int64_t length = 0;       ///< tokens that the model reads of each row
  std::int64_t micro_batches = 0;
};

/// Shares rows out. Rows of like length go together, the longest first, so that
/// little is computed for nothing and a lack of memory shows at once.
std::vector<RowBatch> row_batches(
    std::span<const TextRow> rows,
    const BatchShape& shape);

/// The rows of one micro batch of one rank, at most `shape.rows`.
std::span<const std::size_t> micro_batch_rows(
    const RowBatch& batch,
    const BatchShape& shape,
    std::int64_t micro_batch,
    std::int64_t rank);

} // namespace cairn::evaluate
