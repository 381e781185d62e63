#include "zero/internal/disk_visitor.h"

#include "zero/reduce/side_copies.h"

#include <ATen/ops/empty_like.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>

namespace cairn::zero {

namespace {

class DiskVisitor final : public ShardTier {
 public:
  explicit DiskVisitor(DiskVisitorOptions options)
      : options_(std::move(options)), departures_(options_.device) {}

  bool keeps_memory() const override { return false; }

  void put(int bucket, ShardTensors tensors) override {
    disk().put(bucket, std::move(tensors));
  }

  void prefetch(int bucket) override { disk().prefetch(bucket); }

  ShardTensors acquire(int bucket) override {
    return acquire_from(bucket, /*blank=*/false);
  }
  ShardTensors acquire_blank(int bucket) override {
    return acquire_from(bucket, /*blank=*/true);
  }

  void give_back(int bucket, bool changed) override {
    const auto node = visits_.extract(bucket);
    const Visit& visit = node.mapped();
    if (changed) {
      departures_.copy(visit.home.weights, visit.guest.weights);
      for (std::size_t i = 0; i < visit.guest.states.size(); ++i) {
        departures_.copy(visit.home.states[i], visit.guest.states[i]);
      }
    } else {
      departures_.follow(); // the way in may still be under way
    }
    leaving_.push_back(
        {.bucket = bucket,
         .changed = changed,
         .left = departures_.end_so_far()});
    while (leaving_.size() > 1) {
      see_off();
    }
  }

  void settle() override {
    while (!leaving_.empty()) {
      see_off();
    }
    disk().settle();
  }

  Bytes bytes() const override { return options_.disk->bytes(); }

 private:
  struct Visit {
    ShardTensors home;  ///< in the disk's buffer
    ShardTensors guest; ///< the same on the device
  };
  struct Leaving {
    int bucket = 0;
    bool changed = false;
    CopyMark left;
  };

  ShardTier& disk() { return *options_.disk; }

  ShardTensors acquire_from(int bucket, bool blank) {
    if (!leaving_.empty() && leaving_.back().bucket == bucket) {
      settle(); // its buffer is not to be taken twice
    }
    Visit visit{
        .home = blank ? disk().acquire_blank(bucket) : disk().acquire(bucket)};
    const auto arrive = [&](const at::Tensor& home) {
      return blank
          ? at::empty_like(home, home.options().device(options_.device))
          : home.to(
                options_.device,
                home.scalar_type(),
                /*non_blocking=*/true,
                /*copy=*/true);
    };
    visit.guest.weights = arrive(visit.home.weights);
    for (const at::Tensor& state : visit.home.states) {
      visit.guest.states.push_back(arrive(state));
    }
    return (visits_[bucket] = std::move(visit)).guest;
  }

  /// Waits until the first bucket that leaves is in the disk's buffer, and lets
  /// it be written.
  void see_off() {
    const Leaving first = leaving_.front();
    leaving_.pop_front();
    first.left.wait_on_host();
    disk().give_back(first.bucket, first.changed);
  }

  DiskVisitorOptions options_;
  SideCopies departures_;
  std::map<int, Visit> visits_;
  std::deque<Leaving> leaving_;
};

} // namespace

std::unique_ptr<ShardTier> make_disk_visitor(DiskVisitorOptions options) {
  return std::make_unique<DiskVisitor>(std::move(options));
}

} // namespace cairn::zero
