#include "zero/internal/divided_tier.h"

#include <algorithm>
#include <map>
#include <utility>

namespace cairn::zero {

namespace {

class DividedTier final : public ShardTier {
 public:
  explicit DividedTier(std::vector<TierPlace> places)
      : places_(std::move(places)) {}

  bool keeps_memory() const override { return false; }

  void put(int bucket, ShardTensors tensors) override {
    const std::int64_t elements = tensors.weights.numel();
    std::size_t i = 0;
    while (i + 1 < places_.size() && elements > places_[i].elements) {
      ++i;
    }
    places_[i].elements -= elements;
    ShardTier* const tier = places_[i].tier.get();
    tier_of_[bucket] = tier;
    const auto seen = std::ranges::find(first_of_each_, tier, &First::tier);
    if (seen == first_of_each_.end()) {
      first_of_each_.push_back({bucket, tier});
    }
    tier->put(bucket, std::move(tensors));
  }

  void prefetch(int bucket) override { tier_of_.at(bucket)->prefetch(bucket); }
  /// Buckets are used in the order of put(). While those of the first place
  /// are, the first ones of the others come near.
  ShardTensors acquire(int bucket) override {
    if (bucket == first_of_each_.front().bucket) {
      for (const First& first : first_of_each_) {
        first.tier->prefetch(first.bucket);
      }
    }
    return tier_of_.at(bucket)->acquire(bucket);
  }
  ShardTensors acquire_blank(int bucket) override {
    return tier_of_.at(bucket)->acquire_blank(bucket);
  }
  void give_back(int bucket, bool changed) override {
    tier_of_.at(bucket)->give_back(bucket, changed);
  }

  void settle() override {
    for (const TierPlace& place : places_) {
      place.tier->settle();
    }
  }

  Bytes bytes() const override {
    Bytes all;
    for (const TierPlace& place : places_) {
      const Bytes own = place.tier->bytes();
      all.memory += own.memory;
      all.disk += own.disk;
      all.device += own.device;
    }
    return all;
  }

 private:
  /// The bucket that a place was given first.
  struct First {
    int bucket = 0;
    ShardTier* tier = nullptr;
  };

  std::vector<TierPlace> places_; ///< with the room that is left
  std::map<int, ShardTier*> tier_of_;
  std::vector<First> first_of_each_;
};

} // namespace

std::unique_ptr<ShardTier> make_divided_tier(std::vector<TierPlace> places) {
  return std::make_unique<DividedTier>(std::move(places));
}

} // namespace cairn::zero
