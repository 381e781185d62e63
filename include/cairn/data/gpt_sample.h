#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cairn::data {

/// How tokens become what a left-to-right model trains on.
struct GptSampleOptions {
  std::int64_t eod = 0;
  /// Where the data has this id it counts as padding; -1, which no data has,
  /// where the tokenizer has none or uses it for something else as well.
  std::int64_t pad = -1;
  bool reset_position_ids = false; ///< positions start again after an eod
  bool eod_mask_loss = false;      ///< no loss on what follows an eod
};

/// Where a sample is to be written: sequence_length elements each.
struct GptRow {
  std::span<std::int64_t> tokens;
  std::span<std::int64_t> labels; ///< the token after each
  std::span<float> loss_mask;     ///< 1 where the label counts, else 0
  std::span<std::int64_t> position_ids;
};

/// A row with memory of its own.
struct GptSample {
  std::vector<std::int64_t> tokens;
  std::vector<std::int64_t> labels;
  std::vector<float> loss_mask;
  std::vector<std::int64_t> position_ids;

  GptRow row(std::size_t sequence_length);
};

/// From tokens and labels that are in place, some of them padding: the other
/// two, and padding turned into token 0, which every embedding has.
void finish_gpt_row(const GptRow& row, const GptSampleOptions& options);

/// First token of each document in a sample, and the sample's end: what
/// attention that stays within documents needs (--reset-attention-mask).
void document_bounds(
    std::span<const std::int64_t> tokens,
    std::int64_t eod,
    std::vector<std::int32_t>& bounds);

} // namespace cairn::data
