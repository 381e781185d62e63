#pragma once

#include <array>
#include <cstdint>

// Which tokens the ranks of a ring have, and who looks at whom when. Rank r of
// n has pieces r and 2n - 1 - r of 2n: what its early tokens have too little to
// do with, causally, its late ones have too much. Plain data.

namespace cairn::nn {

struct TokenRange {
  std::int64_t begin = 0;
  std::int64_t size = 0;
  bool operator==(const TokenRange&) const = default;
};

/// Of the whole sequence, which 2 x `ranks` divides.
std::array<TokenRange, 2> sequence_halves(
    std::int64_t sequence,
    int rank,
    int ranks);

/// While a rank has the keys of `owner`: which of its tokens look at which of
/// these, both counted from the first that a rank has. The rest of the keys
/// come later in the sequence than all its tokens.
struct RingStep {
  TokenRange queries{};
  TokenRange keys{};
  bool causal = false; ///< or all at all
  bool operator==(const RingStep&) const = default;
};

/// Its own keys come first, then those of the rank before, ….
int ring_owner(int step, int rank, int ranks);

/// `tokens`: that a rank has. All but the first step are the same work.
RingStep ring_step(std::int64_t tokens, int rank, int owner);

} // namespace cairn::nn
