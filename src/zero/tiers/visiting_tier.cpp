#include "zero/internal/visiting_tier.h"

#include "zero/internal/host_memory.h"
#include "zero/reduce/side_copies.h"
#include "zero/tiers/packed_shard.h"

#include <ATen/ops/empty.h>
#include <cairn/base/error.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace cairn::zero {

namespace {

class VisitingTier final : public ShardTier {
 public:
  explicit VisitingTier(const VisitingTierOptions& options)
      : options_(options),
        arrivals_(options.device),
        departures_(options.device),
        slots_(std::max(2, options.buffers)) {}

  bool keeps_memory() const override { return false; }

  void put(int bucket, ShardTensors tensors) override {
    const std::int64_t elements = tensors.weights.numel();
    if (resident_elements_ + elements <= options_.resident_elements) {
      resident_elements_ += elements;
      resident_[bucket] = std::move(tensors);
      return;
    }
    Home& home = homes_[bucket];
    home.packed = PackedShard(tensors);
    home.memory = host_memory(home.packed.bytes(), at::kByte, options_.pin);
    home.packed.pack(tensors, home.memory);
  }

  void prefetch(int bucket) override {
    if (resident_.contains(bucket) || find(bucket) != nullptr) {
      return;
    }
    Slot& slot = free_slot(bucket);
    const Home& home = homes_.at(bucket);
    slot.arrived = arrivals_.copy(part_of(slot, home), home.memory);
    slot.state = Slot::State::ready;
  }

  ShardTensors acquire(int bucket) override {
    const auto resident = resident_.find(bucket);
    if (resident != resident_.end()) {
      return resident->second;
    }
    prefetch(bucket);
    return views_in(*find(bucket));
  }

  ShardTensors acquire_blank(int bucket) override { return acquire(bucket); }

  void give_back(int bucket, bool changed) override {
    if (resident_.contains(bucket)) {
      return;
    }
    Slot& slot = *find(bucket);
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
    for (const auto& [number, tensors] : resident_) {
      result.device += PackedShard(tensors).bytes();
    }
    for (const Slot& slot : slots_) {
      if (slot.buffer.defined()) {
        result.device += slot.buffer.numel();
      }
    }
    return result;
  }

 private:
  struct Home {
    PackedShard packed;
    at::Tensor memory; ///< bytes
    CopyMark left{};   ///< the newest values are here
  };
  struct Slot {
    enum class State { empty, ready, acquired };
    at::Tensor buffer; ///< bytes on the device
    CopyMark arrived{};
    int bucket = -1;
    State state = State::empty;
    std::uint64_t last_use = 0;
  };

  Slot* find(int bucket) {
    for (Slot& slot : slots_) {
      if (slot.state != Slot::State::empty && slot.bucket == bucket) {
        slot.last_use = ++clock_;
        return &slot;
      }
    }
    return nullptr;
  }

  /// The buffer that was used longest ago. What is copied into it next comes
  /// after its bucket has left.
  Slot& free_slot(int bucket) {
    Slot* oldest = nullptr;
    for (Slot& slot : slots_) {
      if (slot.state != Slot::State::acquired &&
          (oldest == nullptr || slot.last_use < oldest->last_use)) {
        oldest = &slot;
      }
    }
    if (oldest == nullptr) {
      throw InternalError({.what = "all buffers of the tier are in use"});
    }
    arrivals_.beside([&] {
      if (oldest->bucket >= 0) {
        homes_.at(oldest->bucket).left.wait_on_device();
      }
      homes_.at(bucket).left.wait_on_device();
    });
    oldest->state = Slot::State::empty;
    oldest->bucket = bucket;
    oldest->last_use = ++clock_;
    const std::int64_t needed = homes_.at(bucket).packed.bytes();
    if (!oldest->buffer.defined() || oldest->buffer.numel() < needed) {
      oldest->buffer.reset();
      oldest->buffer = at::empty(
          {needed},
          at::TensorOptions(at::kByte).device(options_.device));
    }
    return *oldest;
  }

  static at::Tensor part_of(const Slot& slot, const Home& home) {
    return slot.buffer.narrow(0, 0, home.packed.bytes());
  }

  ShardTensors views_in(Slot& slot) {
    slot.arrived.wait_on_device();
    slot.state = Slot::State::acquired;
    return homes_.at(slot.bucket).packed.views(slot.buffer);
  }

  VisitingTierOptions options_;
  SideCopies arrivals_;
  SideCopies departures_;
  std::map<int, ShardTensors> resident_;
  std::int64_t resident_elements_ = 0;
  std::map<int, Home> homes_;
  std::vector<Slot> slots_;
  std::uint64_t clock_ = 0;
};

} // namespace

std::unique_ptr<ShardTier> make_visiting_tier(
    const VisitingTierOptions& options) {
  return std::make_unique<VisitingTier>(options);
}

} // namespace cairn::zero
