#pragma once

#include "kernels/internal/cuda/text_rows.h"

#include <cairn/kernels/stretch.h>

#include <cstddef>
#include <cstdint>

namespace cairn::kernels::cuda {

// Attention of single tokens to keys and values in pages. See cuda.h for what
// pointers, streams and results are.

/// Attention of each row to the tokens of its text up to its own.
struct KeptAttention {
  TextHeads heads;
  /// True: `query` is [rows, groups, queries + 2, size], not turned yet. The
  /// row's own key and value are taken from there, and written to the pages.
  /// False: it is [rows, groups * queries, size], and all keys are in pages.
  bool fresh = true;
  const void* query = nullptr;
  float scale = 1; ///< of the scores
  /// A row's keys are shared by so many blocks of threads, at least one.
  int splits = 1;
  /// Memory for attention_part_floats() floats and attention_counters()
  /// counters, where there are several splits. Counters begin as zeros and are
  /// left as zeros.
  float* parts = nullptr;
  std::uint32_t* counters = nullptr;
  void* y = nullptr; ///< [rows, groups * queries, size], of the pages' type
};

/// The longest head that attend_kept() takes.
inline constexpr int longest_kept_head = 256;

std::int64_t attention_part_floats(
    const TextHeads& heads,
    std::int64_t rows,
    int splits);
std::int64_t attention_counters(const TextHeads& heads, std::int64_t rows);

[[nodiscard]] const char* attend_kept(
    const TextRows& rows,
    const KeptPages& pages,
    const KeptAttention& attention,
    Start start,
    void* stream);

} // namespace cairn::kernels::cuda
