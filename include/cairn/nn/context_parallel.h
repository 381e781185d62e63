#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/distributed/process_group.h>

#include <cstdint>

// Ranks that share one sequence: each has some of its tokens.

namespace cairn::nn {

/// How a token sees those that other ranks have.
enum class ContextKind {
  /// Keys and values go round the ranks. A rank has an early and a late piece
  /// of the sequence, so that all have as much to do.
  ring,
  /// Around attention, tokens are exchanged for heads: a rank then has some
  /// heads of all tokens. Its own tokens lie in a row.
  ulysses
};

struct ContextParallel {
  distributed::ProcessGroup group{}; ///< of one: nothing is shared
  ContextKind kind = ContextKind::ring;

  bool is_on() const { return group.size() > 1; }
};

/// This rank's tokens of a whole [batch, sequence, …]. Throws ConfigError where
/// the ranks cannot share the sequence.
at::Tensor own_sequence(
    const at::Tensor& whole,
    const ContextParallel& context);

/// Causal attention of this rank's tokens to all that come before them, on any
/// rank: shapes as for attend(). Throws ConfigError for what cannot be shared.
at::Tensor attend_in_context(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    double scale,
    double dropout,
    const ContextParallel& context);

/// Throws ConfigError unless heads of a rank can be shared by these ranks; the
/// ring can do with any.
void check_heads(
    std::int64_t heads,
    std::int64_t key_value_heads,
    const ContextParallel& context);

} // namespace cairn::nn
