#pragma once

#include <ATen/core/Tensor.h>

namespace cairn::zero {

/// The factor of every gradient in an update: averaging, unscaling and clipping
/// in one.
struct GradientFactor {
  double number = 1;
  /// Where it is defined it counts instead of `number`: a float on the GPU that
  /// has the gradients, which may still be under way.
  at::Tensor on_gpu{};
};

} // namespace cairn::zero
