#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

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

/// Where the tokens of a rank are in the sequence: those of a range that counts
/// from its first token, as one stretch of positions or two.
struct RingPlace {
  int rank = 0;
  int ranks = 1;
  std::int64_t tokens = 0; ///< that a rank has

  std::int64_t position(std::int64_t token) const;
  std::vector<TokenRange> positions(const TokenRange& range) const;
};

/// Queries and keys that all see each other, or causally, in some samples of a
/// batch.
struct RingPart {
  TokenRange samples{};
  TokenRange queries{};
  TokenRange keys{};
  bool causal = false;
  bool operator==(const RingPart&) const = default;
};

/// The parts of a step in which documents do not see each other. `first_seen`
/// has, for each sample and each token of this rank, the position at which the
/// token's document begins. What no document has in common is left out.
///
/// A document is contiguous, so outside of a rank's own keys all tokens of a
/// step that see anything belong to the one document that reaches from the
/// last keys to the first queries: they are one rectangle without a mask.
std::vector<RingPart> document_parts(
    const RingStep& step,
    const RingPlace& queries,
    const RingPlace& keys,
    std::span<const std::int64_t> first_seen);

} // namespace cairn::nn
