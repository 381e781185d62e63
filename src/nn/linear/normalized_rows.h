#pragma once

#include "nn/fp8/fp8_matrix.h"

#include <ATen/core/Tensor.h>

namespace cairn::nn {

/// The parameters of a norm over the last dimension: LayerNorm, or RMSNorm if
/// `bias` is undefined.
struct NormParameters {
  at::Tensor weight;
  at::Tensor bias{};
  double epsilon = 1e-5;
};

/// Normalized rows, and what their backward pass needs.
struct NormalizedRows {
  at::Tensor sum;       ///< the input, with what was added to it
  at::Tensor normal;    ///< undefined where it is rounded
  at::Tensor rounded{}; ///< `normal` in fp8, [rows, columns]
  at::Tensor mean;      ///< of each row; undefined for RMSNorm
  at::Tensor inverse;   ///< 1 / standard deviation of each row
};

struct NormGradients {
  at::Tensor x{};
  at::Tensor weight{};
  at::Tensor bias{};
};

/// True when these functions do this norm on the device of x: every LayerNorm,
/// RMSNorm on a GPU.
bool normalizes_rows(const at::Tensor& x, const NormParameters& norm);

/// The norm of x, or of x + branch where `branch` is defined; rounded to fp8 if
/// `scale` has a unit. Without autograd.
NormalizedRows normalize_rows(
    const at::Tensor& x,
    const at::Tensor& branch,
    const NormParameters& norm,
    const Fp8Scale& scale = {});

/// Gradients, given those of `normal`. `through`, the gradient of the sum that
/// came by another way, is added to that of x; it may be undefined. Gradients
/// of parameters are left out where they are written to their place, or where
/// the parameters do not train.
NormGradients normalize_rows_backward(
    const at::Tensor& gradient,
    const at::Tensor& through,
    const NormalizedRows& rows,
    const NormParameters& norm);

} // namespace cairn::nn
