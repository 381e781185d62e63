#include "zero/internal/nvme_tier.h"

#include "io/internal/preflight.h"
#include "zero/internal/host_memory.h"
#include "zero/tiers/bucket_buffers.h"
#include "zero/tiers/packed_shard.h"

#include <cairn/io/nvme_store.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

namespace cairn::zero {

namespace {

class NvmeTier final : public ShardTier {
 public:
  explicit NvmeTier(const NvmeTierOptions& options)
      : options_(options),
        store_(options.folder, options.aio),
        slots_(static_cast<std::size_t>(std::max(2, options.buffers))) {}

  bool keeps_memory() const override { return false; }

  void put(int bucket, ShardTensors tensors) override {
    const PackedShard& packed = buckets_[bucket] = PackedShard(tensors);
    store_.create(name_of(bucket), bytes_of(bucket));
    acquire_blank(bucket);
    Slot& slot = *slots_.find(bucket);
    packed.pack(tensors, slot.buffer);
    const bool zeros = options_.fast_init &&
        std::ranges::none_of(tensors.states, [](const at::Tensor& state) {
                         return state.any().item<bool>();
                       });
    slot.state = Slot::State::ready;
    slot.transfer = store_.write(
        name_of(bucket),
        0,
        zeros ? bytes_in(slot).first(tensors.weights.nbytes())
              : bytes_in(slot));
  }

  void prefetch(int bucket) override {
    if (options_.reads_ahead) {
      read(bucket);
    }
  }

  ShardTensors acquire(int bucket) override {
    read(bucket);
    Slot& slot = *slots_.find(bucket);
    slot.transfer.wait();
    slot.state = Slot::State::acquired;
    return views_of(slot);
  }

  ShardTensors acquire_blank(int bucket) override {
    Slot* slot = slots_.find(bucket);
    if (slot == nullptr) {
      slot = &free_slot(bucket);
    }
    slot->transfer.wait();
    slot->state = Slot::State::acquired;
    return views_of(*slot);
  }

  void give_back(int bucket, bool changed) override {
    Slot& slot = *slots_.find(bucket);
    slot.state = Slot::State::ready;
    if (changed) {
      slot.transfer = store_.write(name_of(bucket), 0, bytes_in(slot));
      if (!options_.writes_behind) {
        slot.transfer.wait();
      }
    }
  }

  void settle() override {
    for (Slot& slot : slots_.all()) {
      slot.transfer.wait();
    }
  }

  Bytes bytes() const override {
    return {
        .memory = slots_.bytes(),
        .disk = static_cast<std::int64_t>(store_.bytes_on_disk())};
  }

 private:
  using Slots = BucketBuffers<io::PendingTransfer>;
  using Slot = Slots::Slot;

  static std::string name_of(int bucket) {
    return fmt::format("bucket {}", bucket);
  }
  std::size_t bytes_of(int bucket) const {
    return static_cast<std::size_t>(buckets_.at(bucket).bytes());
  }
  std::span<std::byte> bytes_in(const Slot& slot) const {
    return {
        static_cast<std::byte*>(slot.buffer.data_ptr()),
        bytes_of(slot.bucket)};
  }

  void read(int bucket) {
    if (slots_.find(bucket) == nullptr) {
      Slot& slot = free_slot(bucket);
      slot.transfer = store_.read(name_of(bucket), 0, bytes_in(slot));
      slot.state = Slot::State::ready;
    }
  }

  /// The buffer that was used longest ago. Waits until it is written.
  Slot& free_slot(int bucket) {
    Slot& slot = slots_.oldest();
    slot.transfer.wait();
    slots_.take_over(
        slot,
        bucket,
        buckets_.at(bucket).bytes(),
        [&](std::int64_t bytes) {
          return host_memory(bytes, at::kByte, options_.pin);
        });
    return slot;
  }

  ShardTensors views_of(const Slot& slot) const {
    return buckets_.at(slot.bucket).views(slot.buffer);
  }

  NvmeTierOptions options_;
  io::NvmeStore store_;
  std::map<int, PackedShard> buckets_;
  Slots slots_;
};

} // namespace

std::unique_ptr<ShardTier> make_nvme_tier(
    const NvmeTierOptions& options,
    const Logger& logger) {
  logger.info(
      "NVMe tier: {}",
      io::to_string(io::check_nvme_folder(
          options.folder,
          static_cast<std::uint64_t>(options.needed_bytes),
          options.aio)));
  return std::make_unique<NvmeTier>(options);
}

} // namespace cairn::zero
