#pragma once

#include <ATen/core/Tensor.h>

namespace cairn::nn {

// Products of matrices, [rows, columns], or of every matrix of a batch, [count,
// rows, columns], by our own kernel where it is faster than libtorch's. They
// look like any operator to a profiler and to ZeRO-3. Without autograd.

/// left x right (+ bias: [columns], or [count, columns])
at::Tensor product(
    const at::Tensor& left,
    const at::Tensor& right,
    const at::Tensor& bias = {});

enum class Into { overwrite, add };

/// into = left x right, or is increased by it.
void product_into(
    const at::Tensor& into,
    const at::Tensor& left,
    const at::Tensor& right,
    Into how);

/// Whether such a matrix is of our own kernel's kind.
bool has_own_product(const at::Tensor& x);

} // namespace cairn::nn
