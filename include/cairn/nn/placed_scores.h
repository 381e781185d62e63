#pragma once

#include <ATen/core/Tensor.h>

namespace cairn::nn {

/// What is added to the scores of attention by the places of queries and keys
/// alone: small tensors instead of one number for every pair. Undefined ones
/// add nothing.
struct PlacedScores {
  /// For each head, by the distance of the key from the query: number
  /// k - q + queries - 1 of [heads, queries + keys - 1], float.
  at::Tensor by_distance{};
  /// [batch, keys], float; minus infinity hides a key.
  at::Tensor by_key{};

  bool defined() const { return by_distance.defined() || by_key.defined(); }
};

/// The same for every pair, [batch or 1, heads or 1, queries, keys], as
/// attention takes a mask. Where it is `causal`, keys after the query are
/// hidden.
at::Tensor placed_mask(
    const PlacedScores& placed,
    std::int64_t queries,
    std::int64_t keys,
    bool causal,
    at::ScalarType type);

} // namespace cairn::nn
