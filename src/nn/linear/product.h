#pragma once

#include <ATen/core/Tensor.h>

namespace cairn::nn {

// Products of matrices [rows, columns], or of all matrices of a batch [count,
// rows, columns], by our own kernel where it is faster than libtorch's. A
// profiler and ZeRO-3 see them like any operator. Without autograd.

/// Computes left x right (+ bias: [columns], or [count, columns]).
at::Tensor product(
    const at::Tensor& left,
    const at::Tensor& right,
    const at::Tensor& bias = {});

/// Computes addend + left x right (+ bias); a product alone if `addend` is
/// undefined. A GPU adds it within the product.
at::Tensor product_added_to(
    const at::Tensor& addend,
    const at::Tensor& left,
    const at::Tensor& right,
    const at::Tensor& bias);

enum class Into { overwrite, add };

/// Sets `into` to left x right, or adds left x right to it. `into` may be of
/// another type than the matrices, such as float for sums of 16-bit products.
void product_into(
    const at::Tensor& into,
    const at::Tensor& left,
    const at::Tensor& right,
    Into how);

/// Sets `into`, a matrix of the factors' type without gaps, to left x right
/// (+ bias: [columns]).
void product_with_bias_into(
    const at::Tensor& into,
    const at::Tensor& left,
    const at::Tensor& right,
    const at::Tensor& bias);

/// True where attention, scores and GELU have kernels of our own for this kind
/// of matrix.
bool has_cpu_kernels(const at::Tensor& x);

} // namespace cairn::nn
