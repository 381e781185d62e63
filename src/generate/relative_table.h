#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/model/description.h>

#include <cstdint>
#include <vector>

namespace cairn::generate {

/// The bias that the heads of a stack add to their scores by the distance of
/// the tokens, as nn::relative_bias() has it. Stacks without relative positions
/// have none.
class RelativeTable {
 public:
  /// `weight`: [buckets, heads], or undefined. `looks_ahead`: tokens see those
  /// behind them as well.
  RelativeTable(
      const model::ModelDescription& model,
      at::Tensor weight,
      bool looks_ahead);

  /// Makes the table good for so many tokens.
  void grow(std::int64_t tokens);
  /// The bias of a token to those from the first one on, in one head; null if
  /// there is none.
  const float* of(std::int64_t head, std::int64_t position) const;
  /// From a head's to the next head's.
  std::int64_t head_step() const { return 2 * tokens_ - 1; }

 private:
  model::ModelDescription model_;
  at::Tensor weight_;
  bool looks_ahead_;
  std::int64_t tokens_ = 0;
  std::vector<float> table_; ///< [heads, 2 * tokens - 1], by distance
};

} // namespace cairn::generate
