#pragma once

#include "nn/attention/partial_attention.h"

#include <ATen/core/Tensor.h>
#include <cairn/nn/attention.h>

namespace cairn::nn {

/// Computes attend() with weights that are dropped by sample, head, query and
/// key, whatever ranks have them, the same ones on CPUs and GPUs. On a GPU 16
/// bits take the kernel of fused_attention.h; other types, and heads of more
/// than 128 values, write the matrix of weights, as the CPU does.
at::Tensor attend_dropping(
    const AttentionInput& input,
    const AttendOptions& options);

} // namespace cairn::nn
