#pragma once

#include <ATen/core/Tensor.h>

namespace cairn::nn {

/// Numbers that attention adds to its scores, where they depend on the places
/// of queries and keys alone: small tensors instead of one number for every
/// pair. An undefined tensor adds nothing.
struct PlacedScores {
  /// For each head, by the distance of the key from the query: number
  /// k - q + queries - 1 of [heads, queries + keys - 1], float.
  at::Tensor by_distance{};
  /// [batch, keys], float; minus infinity hides a key.
  at::Tensor by_key{};

  bool defined() const { return by_distance.defined() || by_key.defined(); }
};

/// A mask for attention that adds the same numbers, [batch or 1, heads or 1,
/// queries, keys]. If it is `causal`, it hides the keys after each query.
at::Tensor placed_mask(
    const PlacedScores& placed,
    std::int64_t queries,
    std::int64_t keys,
    bool causal,
    at::ScalarType type);

} // namespace cairn::nn
