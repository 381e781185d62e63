#pragma once

#include "shared_memory_segment.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cairn::distributed {

/// Rounds of an exchange between the members of a group, in shared memory.
///
/// Every member has two slots, used in turn, and a count of the rounds it has
/// published. In each round a member fills its slot, publishes it and reads
/// those of the others. Publishing a round says as well that this member is
/// done with the round before; so a slot is free again when all have published
/// the round after it was read, and no other flags are needed. One thread at a
/// time may use it.
class SharedMemoryChannel {
 public:
  /// Large enough that a round costs more than meeting for it, also where a
  /// member that waits has to be woken.
  static constexpr std::size_t slot_bytes = 1U << 20;
  static std::size_t segment_bytes(int members);

  /// `names` are the members' ranks in the world, for messages.
  SharedMemoryChannel(
      SharedMemorySegment segment,
      int rank,
      std::span<const int> names);

  int rank() const { return rank_; }
  int members() const { return static_cast<int>(names_.size()); }

  /// Begins a call: what the members do until the next must have the same
  /// signature on all of them.
  void begin(std::uint64_t signature) { signature_ = signature; }

  // A round, in this order. All throw CommError when a member is gone, makes
  // another call, or when abandon() was called.

  /// Waits until this member's slot is free, and returns it.
  std::byte* open_round();
  void publish();
  /// Waits until the member has published the round; its slot.
  const std::byte* await(int member);
  /// This member's slot of the next round; once all were awaited.
  std::byte* next_slot() const { return slot(rank_, round_ + 1); }
  void close_round() { ++round_; }

  /// Makes waits throw, now and later. From any thread.
  void abandon() { abandoned_.store(true, std::memory_order_relaxed); }

 private:
  struct alignas(128) Line {
    std::atomic<std::uint32_t> published;
    std::atomic<std::uint32_t> sleepers; ///< who wait for `published`
    std::atomic<std::uint64_t> signatures[2];
  };

  Line& line(int member) const;
  std::byte* slot(int member, std::uint32_t round) const;
  void wait_for(int member, std::uint32_t rounds);
  void check_members(std::uint32_t rounds) const;

  SharedMemorySegment segment_;
  const int rank_;
  const std::vector<int> names_;
  std::uint32_t round_ = 0; ///< wraps; so do the counts
  std::uint64_t signature_ = 0;
  std::atomic<bool> abandoned_ = false;
};

} // namespace cairn::distributed
