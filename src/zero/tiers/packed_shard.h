#pragma once

#include "zero/tiers/shard_tier.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace cairn::zero {

/// The order of a bucket's tensors in one array of bytes, so that one transfer
/// moves them all.
class PackedShard {
 public:
  PackedShard() = default;
  explicit PackedShard(const ShardTensors& tensors);

  std::int64_t bytes() const { return bytes_; }
  /// The tensors in an array of at least bytes() bytes.
  ShardTensors views(const at::Tensor& array) const;
  /// Copies tensors like those of the constructor into such an array.
  void pack(const ShardTensors& tensors, const at::Tensor& array) const;

 private:
  struct Part {
    std::int64_t begin = 0; ///< in bytes
    at::ScalarType type = at::kFloat;
  };
  std::int64_t elements_ = 0; ///< of each part
  std::vector<Part> parts_;   ///< weights, then states
  std::int64_t bytes_ = 0;
};

} // namespace cairn::zero
