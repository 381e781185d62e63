#pragma once

#include "nn/fp8/fp8_matrix.h"
#include "nn/linear/product.h"

#include <ATen/core/Tensor.h>

#include <optional>

namespace cairn::nn {

/// The type and precision of a product's result.
struct Fp8Result {
  at::ScalarType type = at::kBFloat16;
  /// Sums with float's precision, for gradients. The units add up a little
  /// faster with fewer digits.
  bool exact_sums = false;
};

/// Addends of a product: a bias [columns], and a matrix of the result's shape.
/// Each may be undefined.
struct Fp8Addends {
  at::Tensor bias{};
  at::Tensor matrix{};
};

// Products by the fp8 units of a GPU. Without autograd.

/// Computes left x right transposed (+ bias) (+ addend). Nothing where there
/// are no such units, or where they do not take it.
std::optional<at::Tensor> gpu_fp8_product(
    const Fp8Factor& left,
    const Fp8Factor& right,
    const Fp8Addends& addends,
    const Fp8Result& result);

/// Sets `into` to left x right transposed, or adds that to it, with exact sums.
/// False where there are no such units, or where they do not take it.
bool gpu_fp8_product_into(
    const at::Tensor& into,
    const Fp8Factor& left,
    const Fp8Factor& right,
    Into how);

} // namespace cairn::nn
