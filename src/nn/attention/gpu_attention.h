#pragma once

#include "nn/attention/partial_attention.h"

#include <ATen/core/Tensor.h>

namespace cairn::nn {

/// True when attend_joined_on_gpu() takes this tensor: libtorch would choose
/// cuDNN's attention for it.
bool attends_joined_on_gpu(const at::Tensor& joined, const Scores& scores);

/// Attention of queries, keys and values that lie together in [batch, sequence,
/// groups, heads of a group + 2, size], by cuDNN; returns [batch, sequence,
/// heads, size]. Their gradients are put together in one pass, as the product
/// before it reads them.
at::Tensor attend_joined_on_gpu(const at::Tensor& joined, const Scores& scores);

} // namespace cairn::nn
