#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace cairn::checkpoints {

/// Where the values of two tensors of one shape differ.
struct ValueDifference {
  std::int64_t elements = 0;
  std::int64_t differing = 0;
  double largest = 0;  ///< |a - b|; infinite where one is not a number
  double relative = 0; ///< norm of the difference by the norm of the first

  bool same() const { return differing == 0; }
};

/// Values that are at most `tolerance` apart count as the same, and so do two
/// that are not numbers. The types may be different ones.
ValueDifference compare_values(
    const at::Tensor& one,
    const at::Tensor& other,
    double tolerance);

} // namespace cairn::checkpoints
