#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/base/error.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cairn::zero {

/// The buffers of a tier, each for one bucket at a time. `Transfer` is what the
/// tier remembers of the way in or out of a buffer.
template <class Transfer>
class BucketBuffers {
 public:
  struct Slot {
    enum class State { empty, ready, acquired };
    at::Tensor buffer; ///< bytes
    Transfer transfer{};
    int bucket = -1;
    State state = State::empty;
    std::uint64_t last_use = 0;
  };

  explicit BucketBuffers(std::size_t count) : slots_(count) {}

  std::vector<Slot>& all() { return slots_; }
  const std::vector<Slot>& all() const { return slots_; }

  /// The buffer that has this bucket, or null.
  Slot* find(int bucket) {
    for (Slot& slot : slots_) {
      if (slot.state != Slot::State::empty && slot.bucket == bucket) {
        slot.last_use = ++clock_;
        return &slot;
      }
    }
    return nullptr;
  }

  /// The buffer that was used longest ago, among those that nobody has
  /// acquired. It still holds its bucket, which the caller lets go.
  Slot& oldest() {
    Slot* found = nullptr;
    for (Slot& slot : slots_) {
      if (slot.state != Slot::State::acquired &&
          (found == nullptr || slot.last_use < found->last_use)) {
        found = &slot;
      }
    }
    if (found == nullptr) {
      throw InternalError({.what = "all buffers of a tier are in use"});
    }
    return *found;
  }

  /// Gives a buffer to another bucket, of `bytes` bytes. `make` makes memory
  /// where the buffer has too little.
  template <class Make>
  void take_over(Slot& slot, int bucket, std::int64_t bytes, const Make& make) {
    slot.state = Slot::State::empty;
    slot.bucket = bucket;
    slot.last_use = ++clock_;
    if (!slot.buffer.defined() || slot.buffer.numel() < bytes) {
      slot.buffer.reset(); // before the next: both may not fit
      slot.buffer = make(bytes);
    }
  }

  std::int64_t bytes() const {
    std::int64_t sum = 0;
    for (const Slot& slot : slots_) {
      sum += slot.buffer.defined() ? slot.buffer.numel() : 0;
    }
    return sum;
  }

 private:
  std::vector<Slot> slots_;
  std::uint64_t clock_ = 0;
};

} // namespace cairn::zero
