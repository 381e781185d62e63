#pragma once

#include "zero/tiers/shard_tier.h"

#include <memory>
#include <utility>
#include <vector>

namespace cairn::zero::testing {

/// The buckets that a TierThatWritesDown was asked for, in order.
struct AskedFor {
  std::vector<int> put;
  std::vector<int> prefetched;
};

/// A tier in memory that writes down what it is asked for.
class TierThatWritesDown final : public ShardTier {
 public:
  explicit TierThatWritesDown(AskedFor& asked) : asked_(asked) {}

  bool keeps_memory() const override { return inner_->keeps_memory(); }
  void put(int bucket, ShardTensors tensors) override {
    asked_.put.push_back(bucket);
    inner_->put(bucket, std::move(tensors));
  }
  void prefetch(int bucket) override { asked_.prefetched.push_back(bucket); }
  ShardTensors acquire(int bucket) override { return inner_->acquire(bucket); }
  ShardTensors acquire_blank(int bucket) override {
    return inner_->acquire_blank(bucket);
  }
  void give_back(int bucket, bool changed) override {
    inner_->give_back(bucket, changed);
  }
  void settle() override { inner_->settle(); }
  Bytes bytes() const override { return inner_->bytes(); }

 private:
  AskedFor& asked_;
  std::unique_ptr<ShardTier> inner_ = make_memory_tier();
};

} // namespace cairn::zero::testing
