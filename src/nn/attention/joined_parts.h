#pragma once

#include "nn/attention/partial_attention.h"

#include <ATen/core/Tensor.h>

namespace cairn::nn {

// Queries, keys and values that lie together in [batch, sequence, groups,
// queries + 2, size]: a group has its queries, then its key, then its value.

/// True when the heads of all queries lie in equal steps.
inline bool has_even_heads(const at::Tensor& joined) {
  return joined.is_contiguous() && (joined.size(2) == 1 || joined.size(3) == 3);
}

/// Views of the three as [batch, sequence, heads, size].
inline AttentionInput joined_parts(const at::Tensor& joined) {
  return {
      joined.narrow(3, 0, joined.size(3) - 2).flatten(2, 3),
      joined.select(3, joined.size(3) - 2),
      joined.select(3, joined.size(3) - 1)};
}

} // namespace cairn::nn
