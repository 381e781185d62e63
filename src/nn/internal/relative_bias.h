#pragma once

#include <cairn/nn/layer.h>

#include <cstdint>

namespace cairn::nn {

struct RelativeBiasOptions {
  std::int64_t heads = 0;
  std::int64_t buckets = 32;
  std::int64_t distance = 128; ///< from here on all distances are one bucket
  bool bidirectional = true;
};

/// The bias that each head adds to its scores, [1, heads, queries, keys]. The
/// weights are [buckets, heads].
at::Tensor relative_bias(
    const at::Tensor& weight,
    std::int64_t queries,
    std::int64_t keys,
    const RelativeBiasOptions& options);

/// The same by the distance of the key from the query, as
/// PlacedScores::by_distance has it.
at::Tensor relative_bias_by_distance(
    const at::Tensor& weight,
    std::int64_t queries,
    std::int64_t keys,
    const RelativeBiasOptions& options);

/// T5's positions: each head adds a learnt value to its scores, by the distance
/// of a key from the query. Each rank has its own heads.
class RelativeBias : public Layer {
 public:
  RelativeBias(const LayerContext& context, const RelativeBiasOptions& options);

  /// Returns [1, heads of this rank, queries, keys].
  at::Tensor forward(std::int64_t queries, std::int64_t keys) const;
  const at::Tensor& weight() const { return weight_; }

 private:
  RelativeBiasOptions options_;
  at::Tensor weight_; ///< [buckets, heads of this rank]
};

/// The bucket of every (query, key) as in T5's original code, [queries, keys].
at::Tensor relative_buckets(
    std::int64_t queries,
    std::int64_t keys,
    const RelativeBiasOptions& options,
    at::Device device);

} // namespace cairn::nn
