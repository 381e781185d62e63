#include "zero/shard_tier.h"

#include <utility>

namespace cairn::zero {

namespace {

class MemoryTier final : public ShardTier {
 public:
  bool keeps_memory() const override { return true; }
  void put(ShardTensors tensors) override {
    buckets_.push_back(std::move(tensors));
  }
  void prefetch(int) override {}
  ShardTensors acquire(int bucket) override { return buckets_.at(bucket); }
  void give_back(int, bool) override {}
  void settle() override {}

  Bytes bytes() const override {
    Bytes result;
    for (const ShardTensors& bucket : buckets_) {
      result.memory += static_cast<std::int64_t>(bucket.weights.nbytes());
      for (const at::Tensor& state : bucket.states) {
        result.memory += static_cast<std::int64_t>(state.nbytes());
      }
    }
    return result;
  }

 private:
  std::vector<ShardTensors> buckets_;
};

} // namespace

std::unique_ptr<ShardTier> make_memory_tier() {
  return std::make_unique<MemoryTier>();
}

} // namespace cairn::zero
