#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace cairn::zero {

/// Of one bucket's owned part: for an optimizer fp32 weights and the rule's
/// states, for resting parameters the weights in their own type.
struct ShardTensors {
  at::Tensor weights;
  std::vector<at::Tensor> states;
};

/// Where those rest while nobody needs them.
class ShardTier {
 public:
  virtual ~ShardTier() = default;

  /// Whether put() keeps the very tensors, so that parameters can be the
  /// weights at the same time.
  virtual bool keeps_memory() const = 0;

  /// Takes a bucket over.
  virtual void put(int bucket, ShardTensors tensors) = 0;
  /// Starts to bring a bucket near, if that takes time.
  virtual void prefetch(int bucket) = 0;
  /// In memory, until given back.
  virtual ShardTensors acquire(int bucket) = 0;
  /// The same for someone who fills all of it: the values need not be there.
  virtual ShardTensors acquire_blank(int bucket) = 0;
  /// `changed`: what was acquired has new values.
  virtual void give_back(int bucket, bool changed) = 0;
  /// Waits for everything under way.
  virtual void settle() = 0;

  struct Bytes {
    std::int64_t memory = 0;
    std::int64_t disk = 0;
  };
  virtual Bytes bytes() const = 0;
};

/// In memory, wherever the tensors are.
std::unique_ptr<ShardTier> make_memory_tier();

} // namespace cairn::zero
