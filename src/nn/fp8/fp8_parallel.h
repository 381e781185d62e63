#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/distributed/process_group.h>
#include <cairn/nn/fp8_scaling.h>

namespace cairn::nn {

// Linear layers in fp8 that the ranks of a group divide, as in
// tensor_parallel.h. Each rank rounds its own part. Units that are made
// from the matrices are each rank's own; those of earlier updates are the same
// on all ranks (Fp8Histories).

/// column_linear() of one weight in fp8. Only a group of one takes an input
/// that was rounded before.
at::Tensor fp8_column_linear(
    const LayerInput& x,
    const at::Tensor& weight,
    const at::Tensor& bias,
    const distributed::ProcessGroup& group,
    bool split_tokens,
    const Fp8Use& fp8);

/// row_linear() in fp8.
at::Tensor fp8_row_linear(
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& bias,
    const distributed::ProcessGroup& group,
    bool split_tokens,
    const Fp8Use& fp8);

} // namespace cairn::nn
