#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/distributed/process_group.h>
#include <cairn/nn/layer.h>

namespace cairn::nn {

// Linear layers in fp8 that the ranks of a group divide, as in
// tensor_parallel.h. Each rank rounds its own part with a unit of its own.

/// column_linear() of one weight in fp8.
at::Tensor fp8_column_linear(
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& bias,
    const distributed::ProcessGroup& group,
    bool split_tokens,
    Fp8Format format);

/// row_linear() in fp8.
at::Tensor fp8_row_linear(
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& bias,
    const distributed::ProcessGroup& group,
    bool split_tokens,
    Fp8Format format);

} // namespace cairn::nn
