#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace cairn::zero {

/// Tensors of one bucket's owned part. For an optimizer: weights, in fp32 or as
/// the remainders of bf16 parameters (int16), and the rule's states, in fp32 or
/// bf16. For resting parameters: the weights in their own type.
struct ShardTensors {
  at::Tensor weights;
  std::vector<at::Tensor> states;
};

/// Keeps ShardTensors while nobody needs them.
class ShardTier {
 public:
  virtual ~ShardTier() = default;

  /// True when put() keeps the very tensors, so that parameters can be the
  /// weights at the same time.
  virtual bool keeps_memory() const = 0;

  /// Takes over the tensors of a bucket.
  virtual void put(int bucket, ShardTensors tensors) = 0;
  /// Starts to bring a bucket near, if that takes time.
  virtual void prefetch(int bucket) = 0;
  /// The tensors of a bucket, in memory until given back.
  virtual ShardTensors acquire(int bucket) = 0;
  /// acquire() for a caller who fills all of it: the values need not be there.
  virtual ShardTensors acquire_blank(int bucket) = 0;
  /// Ends an acquire(). `changed`: the tensors have new values.
  virtual void give_back(int bucket, bool changed) = 0;
  /// Waits for everything under way.
  virtual void settle() = 0;

  struct Bytes {
    std::int64_t memory = 0;
    std::int64_t disk = 0;
    std::int64_t device = 0; ///< beside a tier in the host's memory
  };
  virtual Bytes bytes() const = 0;
};

/// Whose memory a memory tier's bytes are counted as.
enum class MemoryOf { host, device };

/// A tier in memory, wherever the tensors are.
std::unique_ptr<ShardTier> make_memory_tier(MemoryOf owner = MemoryOf::host);

} // namespace cairn::zero
