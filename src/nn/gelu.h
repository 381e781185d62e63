#pragma once

#include <ATen/core/Tensor.h>

namespace cairn::nn {

enum class GeluKind { exact, tanh };

/// at::gelu, or our own kernel where it is faster.
at::Tensor gelu(const at::Tensor& x, GeluKind kind);

} // namespace cairn::nn
