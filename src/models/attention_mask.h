#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace cairn::models {

/// ModelInput's mask as attention takes it (bool, four dimensions); undefined
/// where a token sees everything, or everything before it.
at::Tensor attention_mask(const at::Tensor& mask, bool causal);

/// [1, 1, sequence, sequence]
at::Tensor causal_mask(std::int64_t sequence, at::Device device);

} // namespace cairn::models
