#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/distributed/process_group.h>

#include <cstdint>

// Context parallelism: ranks share one sequence, and each has some of its
// tokens.

namespace cairn::nn {

/// The way in which a token sees the tokens of other ranks.
enum class ContextKind {
  /// Keys and values go round the ranks. A rank has an early and a late piece
  /// of the sequence, so that all ranks have the same amount of work.
  ring,
  /// Tokens are exchanged for heads around attention: within it a rank has some
  /// heads of all tokens. The tokens of a rank are contiguous.
  ulysses
};

struct ContextParallel {
  distributed::ProcessGroup group{}; ///< group of one: nothing is shared
  ContextKind kind = ContextKind::ring;

  bool is_on() const { return group.size() > 1; }
};

/// This rank's tokens of a whole [batch, sequence, …]. Throws ConfigError where
/// the ranks cannot share the sequence.
at::Tensor own_sequence(
    const at::Tensor& whole,
    const ContextParallel& context);

struct AttendOptions; // attention.h

/// Causal attention of this rank's tokens to all tokens before them, on any
/// rank. Shapes are those of attend(). Ulysses takes a mask of the whole
/// sequence; the ring takes none, but AttendOptions::first_seen, and throws
/// UsageError for a mask.
at::Tensor attend_in_context(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const AttendOptions& options,
    const ContextParallel& context);

/// Throws ConfigError unless these ranks can share the heads of a tensor
/// parallel rank; see ulysses_attention(). The ring takes any number of them.
void check_heads(
    std::int64_t heads,
    std::int64_t key_value_heads,
    const ContextParallel& context);

} // namespace cairn::nn
