#pragma once

#include <ATen/core/Tensor.h>

namespace cairn::nn {

enum class GeluKind { exact, tanh };

/// Computes at::gelu, by our own kernel where it is faster.
at::Tensor gelu(const at::Tensor& x, GeluKind kind);

} // namespace cairn::nn
