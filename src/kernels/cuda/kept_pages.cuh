#pragma once

#include "kernels/cuda/lane.cuh"
#include "kernels/internal/cuda/text_rows.h"

#include <cstdint>

namespace cairn::kernels::cuda {

/// Where a text's pages have a token, for the first head; `table` is the text's
/// own row of the table.
__device__ inline std::int64_t place_in_pages(
    const KeptPages& pages,
    const std::int32_t* table,
    int position) {
  const auto page = static_cast<unsigned>(position) /
      static_cast<unsigned>(pages.page_tokens);
  const auto token = static_cast<unsigned>(position) -
      page * static_cast<unsigned>(pages.page_tokens);
  return table[page] * pages.page_step +
      static_cast<std::int64_t>(token) * pages.row;
}

/// The row of the tables of angles by which a row's heads are turned.
__device__ inline int angle_of(const TextRows& rows, std::int64_t row) {
  return rows.angles != nullptr ? rows.angles[row] : rows.positions[row];
}

/// Element `at` of the head that begins at `first`, turned by a row of the
/// tables of angles, unless that is below 0 or the model has no rotary
/// positions.
template <Element element>
__device__ float turned(
    const void* from,
    std::int64_t first,
    int at,
    const TextHeads& heads,
    int turn) {
  Lane own[1];
  load(from, element, first + at, own);
  const int half = heads.size / 2;
  if (heads.cosine == nullptr || turn < 0 || at >= 2 * half) {
    return own[0].value;
  }
  const bool second = at >= half;
  const int pair = second ? at - half : at;
  Lane other[1];
  load(from, element, first + (second ? pair : at + half), other);
  const std::int64_t angle = static_cast<std::int64_t>(turn) * half + pair;
  const float cosine = heads.cosine[angle];
  const float sine = heads.sine[angle];
  return second ? own[0].value * cosine + other[0].value * sine
                : own[0].value * cosine - other[0].value * sine;
}

} // namespace cairn::kernels::cuda
