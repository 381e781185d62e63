#include "zero/tiers/shard_tier.h"

#include <map>
#include <utility>

namespace cairn::zero {

namespace {

class MemoryTier final : public ShardTier {
 public:
  explicit MemoryTier(MemoryOf owner) : owner_(owner) {}

  bool keeps_memory() const override { return true; }
  void put(int bucket, ShardTensors tensors) override {
    buckets_[bucket] = std::move(tensors);
  }
  void prefetch(int) override {}
  ShardTensors acquire(int bucket) override { return buckets_.at(bucket); }
  ShardTensors acquire_blank(int bucket) override { return acquire(bucket); }
  void give_back(int, bool) override {}
  void settle() override {}

  Bytes bytes() const override {
    Bytes result;
    std::int64_t& all =
        owner_ == MemoryOf::device ? result.device : result.memory;
    for (const auto& [number, bucket] : buckets_) {
      all += static_cast<std::int64_t>(bucket.weights.nbytes());
      for (const at::Tensor& state : bucket.states) {
        all += static_cast<std::int64_t>(state.nbytes());
      }
    }
    return result;
  }

 private:
  MemoryOf owner_;
  std::map<int, ShardTensors> buckets_;
};

} // namespace

std::unique_ptr<ShardTier> make_memory_tier(MemoryOf owner) {
  return std::make_unique<MemoryTier>(owner);
}

} // namespace cairn::zero
