#pragma once

#include "nn/attention/partial_attention.h"

#include <ATen/core/Tensor.h>
#include <cairn/nn/attention.h>

namespace cairn::nn {

/// Computes attend() on the CPU with weights that are dropped by sample, head,
/// query and key, whatever ranks have them. Writes the matrix of weights.
at::Tensor attend_dropping(
    const AttentionInput& input,
    const AttendOptions& options);

} // namespace cairn::nn
