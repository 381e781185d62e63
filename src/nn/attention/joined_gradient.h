#pragma once

#include "kernels/internal/cuda/join_heads.h"
#include "nn/attention/gpu_attention.h"
#include "nn/fp8/rounded_gradient.h"

#include <ATen/core/Tensor.h>

namespace cairn::nn {

/// A tensor [batch, sequence, groups, queries of a group + 2, size] as our
/// kernels see it.
kernels::cuda::JoinedShape joined_shape(const at::Tensor& joined);

kernels::cuda::Angles joined_angles(const RotaryAngles& angles);

/// The gradient of a joined tensor, and its sums over groups of tokens.
struct JoinedGradient {
  at::Tensor whole; ///< without memory where the gradient went its own way
  at::Tensor parts; ///< float, [parts, columns], if they are wanted
};

enum class TokenSums { none, wanted };

/// Puts gradients [batch, heads, tokens, size] to their places in a tensor of
/// this shape, or where there is a `way`, in fp8 there.
JoinedGradient join_gradients(
    at::IntArrayRef sizes,
    const AttentionInput& gradients,
    const RotaryAngles& angles,
    RoundedGradient* way,
    TokenSums sums);

} // namespace cairn::nn
