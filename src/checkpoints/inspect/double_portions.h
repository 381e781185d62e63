#pragma once

#include <ATen/Functions.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>

namespace cairn::checkpoints {

/// The elements row by row; a complex element is two numbers.
inline at::Tensor flat_reals(const at::Tensor& tensor) {
  return (tensor.is_complex() ? at::view_as_real(tensor) : tensor)
      .contiguous()
      .view({-1});
}

/// Calls `visit(begin, count)` for portions that are small enough to be
/// converted without a noticeable amount of memory.
template <typename Visit>
void for_each_portion(std::int64_t elements, const Visit& visit) {
  constexpr std::int64_t most = std::int64_t{1} << 20;
  for (std::int64_t begin = 0; begin < elements; begin += most) {
    visit(begin, std::min(most, elements - begin));
  }
}

} // namespace cairn::checkpoints
