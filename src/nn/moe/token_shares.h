#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/distributed/process_group.h>

// Conversions between [batch, sequence, hidden] and the ranks' shares of its
// tokens.

namespace cairn::nn {

/// All tokens, [tokens, hidden].
inline at::Tensor flat_tokens(const at::Tensor& x) {
  return x.contiguous().view({-1, x.size(-1)});
}

/// Throws ConfigError unless the ranks can share [batch, sequence, …].
void check_divides(const at::Tensor& x, const distributed::ProcessGroup& group);

/// A rank's [tokens, hidden] in the shape of a share of `whole`.
at::Tensor as_share(
    const at::Tensor& tokens,
    const at::Tensor& whole,
    const distributed::ProcessGroup& group);

/// All [tokens, hidden] in the shape of the whole, of which `share` is a rank's
/// part.
inline at::Tensor as_whole(
    const at::Tensor& tokens,
    const at::Tensor& share,
    const distributed::ProcessGroup& group) {
  return tokens.view(
      {share.size(0), share.size(1) * group.size(), tokens.size(-1)});
}

} // namespace cairn::nn
