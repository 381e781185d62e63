#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace cairn::checkpoints {

/// The differences between the values of two tensors of one shape.
struct ValueDifference {
  std::int64_t elements = 0;
  std::int64_t differing = 0;
  double largest = 0;  ///< |a - b|; infinite where one is not a number
  double relative = 0; ///< norm of the difference / norm of the first

  bool same() const { return differing == 0; }
};

/// Compares values. Two values that are at most `tolerance` apart count as the
/// same, and so do two NaNs. The tensors may have different types.
ValueDifference compare_values(
    const at::Tensor& one,
    const at::Tensor& other,
    double tolerance);

} // namespace cairn::checkpoints
