#pragma once

#include "kernels/internal/cuda/product.h"
#include "nn/linear/product.h"

#include <ATen/core/Tensor.h>

#include <optional>

namespace cairn::nn {

// Products of 16-bit matrices on a GPU, by the fastest algorithm for their
// shape. Each returns nothing where such a product is left to libtorch, as are
// those that autograd records. Without autograd.

/// Computes left x right (+ bias, [columns]) (+ addend, [rows, columns]).
std::optional<at::Tensor> gpu_product(
    const at::Tensor& left,
    const at::Tensor& right,
    const at::Tensor& bias,
    const at::Tensor& addend = {});

/// Sets `into` to left x right (+ bias, [columns]), or adds them to it. False
/// where this is left to libtorch.
bool gpu_product_into(
    const at::Tensor& into,
    const at::Tensor& left,
    const at::Tensor& right,
    Into how,
    const at::Tensor& bias = {});

/// GELU of a product, and what it was taken of.
struct GeluProduct {
  at::Tensor sums;
  at::Tensor result;
};

/// Computes the GELU, as approximated by a hyperbolic tangent, of
/// left x right + bias.
std::optional<GeluProduct> gpu_product_gelu(
    const at::Tensor& left,
    const at::Tensor& right,
    const at::Tensor& bias);

/// Computes left x right, times the slope of that GELU at `sums`.
std::optional<at::Tensor> gpu_product_gelu_gradient(
    const at::Tensor& left,
    const at::Tensor& right,
    const at::Tensor& sums);

/// Queues a product on the GPU of `on`. False where cuBLASLt does not take it.
bool start_gpu_product(
    const kernels::cuda::Product& product,
    const at::Tensor& on);

} // namespace cairn::nn
