#pragma once

#include <ATen/core/Tensor.h>

namespace cairn::nn {

enum class GeluKind { exact, tanh };

/// What our own kernel for CPUs keeps for backward. The slope takes as much
/// memory as the input, and backward is then one multiplication; the input
/// costs nothing where something else keeps it as well.
enum class GeluKeeps { slope, input };

/// Computes at::gelu, by our own kernel where it is faster.
at::Tensor gelu(
    const at::Tensor& x,
    GeluKind kind,
    GeluKeeps keeps = GeluKeeps::slope);

/// True when gelu() of such a tensor is our own kernel for CPUs.
bool has_own_gelu(const at::Tensor& x);

/// Gradients of y = gelu(x), where the last addend of x was a bias.
struct GeluGradients {
  at::Tensor x;
  /// Undefined without a bias, or where it was written to a place of its own
  /// (kernels::gradient_place).
  at::Tensor bias;
};

/// Gradients of the rows of a matrix, in one pass on a GPU. Without autograd.
GeluGradients gelu_backward(
    const at::Tensor& gradient,
    const at::Tensor& x,
    GeluKind kind,
    const at::Tensor& bias);

} // namespace cairn::nn
