#pragma once

#include "nn/attention/partial_attention.h"

#include <ATen/ops/constant_pad_nd.h>

#include <cstdint>

namespace cairn::nn {

/// Heads whose size is a multiple of 8, as a GPU's fused attention takes them:
/// with zeros after each where they are missing, which change no score.
inline AttentionInput in_whole_eights(const AttentionInput& input) {
  const std::int64_t missing = (8 - input.query.size(3) % 8) % 8;
  if (missing == 0) {
    return input;
  }
  const auto padded = [&](const at::Tensor& x) {
    return at::constant_pad_nd(x, {0, missing});
  };
  return {padded(input.query), padded(input.key), padded(input.value)};
}

} // namespace cairn::nn
