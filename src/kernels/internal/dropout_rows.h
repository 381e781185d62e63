#pragma once

#include <cairn/kernels/stretch.h>

#include <cstdint>

namespace cairn::kernels {

/// A matrix whose elements are dropped, and the place of its rows in the run.
/// Whether an element is dropped depends on `key`, the number of its sample,
/// its head, its position in the sequence and its column, and on nothing else:
/// any part of a matrix that says where it stands is dropped as in the whole.
///
/// The rows are a stretch of [samples, heads, tokens]. Hidden states have one
/// head.
struct DropoutRows {
  std::int64_t rows = 0;
  std::int64_t columns = 0; ///< without gaps
  Element element = Element::fp32;
  /// The number of the first row within [samples, heads, tokens].
  std::int64_t first_row = 0;
  std::int64_t heads = 1;
  std::int64_t tokens = 1;
  /// The number of each sample in the run, below 2^48.
  const std::int64_t* samples = nullptr;
  std::int64_t first_head = 0; ///< in the whole layer, below 2^16
  /// The first `early` tokens are those from position `early_begin` on, the
  /// rest those from `late_begin` on.
  std::int64_t early = 1;
  std::int64_t early_begin = 0;
  std::int64_t late_begin = 0;
  /// The number of the first column in the whole row, a multiple of 8.
  std::int64_t first_column = 0;
  std::uint64_t key = 0; ///< of the run's seed and the place in the model
  /// Elements are dropped whose 16 random bits are below this.
  std::uint32_t threshold = 0;
  float scale = 1; ///< of the elements that stay

  /// The threshold and the scale for a probability.
  constexpr void drop(double probability) {
    constexpr double all = 65536;
    threshold = static_cast<std::uint32_t>(probability * all + 0.5);
    scale = threshold >= 65536
        ? 0.0F
        : static_cast<float>(all / (all - static_cast<double>(threshold)));
  }
};

} // namespace cairn::kernels
