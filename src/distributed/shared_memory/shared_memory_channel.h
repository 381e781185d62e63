#pragma once

#include "distributed/shared_memory/shared_memory_segment.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cairn::distributed {

/// Exchanges data between the members of a group in rounds, through shared
/// memory.
///
/// Every member has two slots, used in turn, and a count of the rounds it has
/// published. In each round a member fills its slot, publishes it and reads the
/// slots of the others. Publishing a round also says that this member is done
/// with the round before. A slot is therefore free again when all have
/// published the round after it was read, and no other flags are needed. One
/// thread at a time may use a channel.
class SharedMemoryChannel {
 public:
  /// Size of a slot: large enough that a round costs more than the meeting for
  /// it, also where a waiting member has to be woken.
  static constexpr std::size_t slot_bytes = 1U << 20;
  static std::size_t segment_bytes(int members);

  /// `names` are the members' ranks in the world, for messages.
  SharedMemoryChannel(
      SharedMemorySegment segment,
      int rank,
      std::span<const int> names);

  int rank() const { return rank_; }
  int members() const { return static_cast<int>(names_.size()); }

  /// Begins a call. All members must give the same signature for their work
  /// until the next call.
  void begin(std::uint64_t signature) { signature_ = signature; }

  // The steps of a round, in this order. All throw CommError when a member is
  // gone or makes another call, or when abandon() was called.

  /// Waits until this member's slot is free, and returns it.
  std::byte* open_round();
  void publish();
  /// Waits until the member has published the round, and returns its slot.
  const std::byte* await(int member);
  /// This member's slot of the next round. Free once all members were awaited.
  std::byte* next_slot() const { return slot(rank_, round_ + 1); }
  void close_round() { ++round_; }

  /// Makes waits throw, now and later. Any thread may call it.
  void abandon() { abandoned_.store(true, std::memory_order_relaxed); }

 private:
  struct alignas(128) Line {
    std::atomic<std::uint32_t> published;
    std::atomic<std::uint32_t> sleepers; ///< members that wait for `published`
    std::atomic<std::uint64_t> signatures[2];
  };

  Line& line(int member) const;
  std::byte* slot(int member, std::uint32_t round) const;
  void wait_for(int member, std::uint32_t rounds);
  void check_members(std::uint32_t rounds) const;

  SharedMemorySegment segment_;
  const int rank_;
  const std::vector<int> names_;
  std::uint32_t round_ = 0; ///< wraps around, as `published` does
  std::uint64_t signature_ = 0;
  std::atomic<bool> abandoned_ = false;
};

} // namespace cairn::distributed
