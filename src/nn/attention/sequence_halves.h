#pragma once

#include <array>
#include <cstdint>

// Which tokens the ranks of a ring have, and which tokens look at which in each
// step. Rank r of n has pieces r and 2n - 1 - r of 2n: with a causal mask early
// tokens have little work and late ones much, and both pieces together have the
// same on every rank. Plain data.

namespace cairn::nn {

struct TokenRange {
  std::int64_t begin = 0;
  std::int64_t size = 0;
  bool operator==(const TokenRange&) const = default;
};

/// The two pieces of a rank. 2 x `ranks` must divide the sequence.
std::array<TokenRange, 2> sequence_halves(
    std::int64_t sequence,
    int rank,
    int ranks);

/// One step of the ring, in which a rank has the keys of `owner`: which of its
/// tokens look at which of these keys, both counted from the rank's first
/// token. The other keys come later in the sequence than all tokens of the
/// rank.
struct RingStep {
  TokenRange queries{};
  TokenRange keys{};
  bool causal = false; ///< false: all queries look at all keys
  bool operator==(const RingStep&) const = default;
};

/// The rank whose keys are here in a step: its own come first, then those of
/// the rank before, ….
int ring_owner(int step, int rank, int ranks);

/// The work of a step; `tokens` is the number that a rank has. All steps but
/// the first are the same amount of work.
RingStep ring_step(std::int64_t tokens, int rank, int owner);

} // namespace cairn::nn
