#include "zero/internal/visiting_tier.h"

#include "zero/internal/host_memory.h"
#include "zero/reduce/side_copies.h"
#include "zero/tiers/bucket_buffers.h"
#include "zero/tiers/packed_shard.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

namespace cairn::zero {

namespace {

class VisitingTier final : public ShardTier {
 public:
  explicit VisitingTier(const VisitingTierOptions& options)
      : options_(options),
        arrivals_(options.device),
        departures_(options.device),
        slots_(static_cast<std::size_t>(std::max(2, options.buffers))) {}

  bool keeps_memory() const override { return false; }

  void put(int bucket, ShardTensors tensors) override {
    Home& home = homes_[bucket];
    home.packed = PackedShard(tensors);
    home.memory = host_memory(home.packed.bytes(), at::kByte, options_.pin);
    home.packed.pack(tensors, home.memory);
  }

  void prefetch(int bucket) override {
    if (slots_.find(bucket) != nullptr) {
      return;
    }
    Slot& slot = free_slot(bucket);
    const Home& home = homes_.at(bucket);
    slot.transfer = arrivals_.copy(part_of(slot, home), home.memory);
    slot.state = Slot::State::ready;
  }

  ShardTensors acquire(int bucket) override {
    prefetch(bucket);
    return views_in(*slots_.find(bucket));
  }

  ShardTensors acquire_blank(int bucket) override { return acquire(bucket); }

  void give_back(int bucket, bool changed) override {
    Slot& slot = *slots_.find(bucket);
    slot.state = Slot::State::ready;
    if (changed) {
      Home& home = homes_.at(bucket);
      home.left = departures_.copy(home.memory, part_of(slot, home));
    }
  }

  void settle() override {
    for (const auto& [number, home] : homes_) {
      home.left.wait_on_host();
    }
  }

  Bytes bytes() const override {
    Bytes result;
    for (const auto& [number, home] : homes_) {
      result.memory += home.packed.bytes();
    }
    result.device = slots_.bytes();
    return result;
  }

 private:
  struct Home {
    PackedShard packed;
    at::Tensor memory; ///< bytes
    CopyMark left{};   ///< the newest values are here
  };
  /// A buffer's transfer is the arrival of its bucket.
  using Slots = BucketBuffers<CopyMark>;
  using Slot = Slots::Slot;

  /// The buffer that was used longest ago. What is copied into it next comes
  /// after its bucket has left.
  Slot& free_slot(int bucket) {
    Slot& slot = slots_.oldest();
    arrivals_.beside([&] {
      if (slot.bucket >= 0) {
        homes_.at(slot.bucket).left.wait_on_device();
      }
      homes_.at(bucket).left.wait_on_device();
    });
    slots_.take_over(
        slot,
        bucket,
        homes_.at(bucket).packed.bytes(),
        [&](std::int64_t bytes) {
          return at::empty(
              {bytes},
              at::TensorOptions(at::kByte).device(options_.device));
        });
    return slot;
  }

  static at::Tensor part_of(const Slot& slot, const Home& home) {
    return slot.buffer.narrow(0, 0, home.packed.bytes());
  }

  ShardTensors views_in(Slot& slot) {
    slot.transfer.wait_on_device();
    slot.state = Slot::State::acquired;
    return homes_.at(slot.bucket).packed.views(slot.buffer);
  }

  VisitingTierOptions options_;
  SideCopies arrivals_;
  SideCopies departures_;
  std::map<int, Home> homes_;
  Slots slots_;
};

} // namespace

std::unique_ptr<ShardTier> make_visiting_tier(
    const VisitingTierOptions& options) {
  return std::make_unique<VisitingTier>(options);
}

} // namespace cairn::zero
