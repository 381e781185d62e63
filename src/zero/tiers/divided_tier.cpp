#include "zero/internal/divided_tier.h"

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
    tier_of_[bucket] = places_[i].tier.get();
    places_[i].tier->put(bucket, std::move(tensors));
  }

  void prefetch(int bucket) override { tier_of_.at(bucket)->prefetch(bucket); }
  ShardTensors acquire(int bucket) override {
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
  std::vector<TierPlace> places_; ///< with the room that is left
  std::map<int, ShardTier*> tier_of_;
};

} // namespace

std::unique_ptr<ShardTier> make_divided_tier(std::vector<TierPlace> places) {
  return std::make_unique<DividedTier>(std::move(places));
}

} // namespace cairn::zero
