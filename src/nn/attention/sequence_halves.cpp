#include "nn/attention/sequence_halves.h"

namespace cairn::nn {

std::array<TokenRange, 2> sequence_halves(
    std::int64_t sequence,
    int rank,
    int ranks) {
  const std::int64_t piece = sequence / (2 * ranks);
  return {
      TokenRange{rank * piece, piece},
      TokenRange{(2 * ranks - 1 - rank) * piece, piece}};
}

int ring_owner(int step, int rank, int ranks) {
  return (rank + ranks - step) % ranks;
}

RingStep ring_step(std::int64_t tokens, int rank, int owner) {
  const std::int64_t half = tokens / 2;
  const TokenRange all{0, tokens};
  const TokenRange early{0, half};
  const TokenRange late{half, half};
  if (owner == rank) {
    return {all, all, true};
  }
  // Early pieces are in the order of ranks, late ones in the reverse order.
  return owner < rank ? RingStep{all, early, false}
                      : RingStep{late, all, false};
}

} // namespace cairn::nn
