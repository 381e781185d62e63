#include "distributed/shared_memory/shared_memory_channel.h"

#include <cairn/base/error.h>
#include <fmt/core.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <utility>

namespace cairn::distributed {
namespace {

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

constexpr std::size_t page = 4096;

std::size_t head_bytes(int members) {
  const std::size_t lines = 128 * static_cast<std::size_t>(members);
  return (lines + page - 1) / page * page;
}

void pause_briefly() {
#if defined(__aarch64__)
  __asm__ __volatile__("isb");
#elif defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// A waiting member watches for a few microseconds, then lets other threads run
/// (those of the awaited rank among them), then sleeps. Where there are as many
/// ranks as cores, watching takes the time that computing needs.
constexpr int spins = 200;
constexpr int yields = 20;

/// Interval at which a sleeping member looks whether the others are still
/// there.
constexpr timespec look_interval = {.tv_sec = 0, .tv_nsec = 20'000'000};

bool reached(std::uint32_t count, std::uint32_t rounds) {
  return static_cast<std::int32_t>(count - rounds) >= 0;
}

// Not FUTEX_PRIVATE: other processes have the word at other addresses.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t seen) {
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &look_interval, nullptr, 0);
}

void futex_wake(const std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

} // namespace

std::size_t SharedMemoryChannel::segment_bytes(int members) {
  return head_bytes(members) +
      2 * static_cast<std::size_t>(members) * slot_bytes;
}

SharedMemoryChannel::SharedMemoryChannel(
    SharedMemorySegment segment,
    int rank,
    std::span<const int> names)
    : segment_(std::move(segment)),
      rank_(rank),
      names_(names.begin(), names.end()) {
  static_assert(sizeof(Line) == 128);
  if (segment_.size() < segment_bytes(members())) {
    throw CommError({.what = "the shared memory is of another size"});
  }
  segment_.join(rank);
}

SharedMemoryChannel::Line& SharedMemoryChannel::line(int member) const {
  // The segment starts as zeros, which is the initial value of a line.
  return reinterpret_cast<Line*>(segment_.data())[member];
}

std::byte* SharedMemoryChannel::slot(int member, std::uint32_t round) const {
  return segment_.data() + head_bytes(members()) +
      (2 * static_cast<std::size_t>(member) + round % 2) * slot_bytes;
}

std::byte* SharedMemoryChannel::open_round() {
  for (int member = 0; member < members(); ++member) {
    if (member != rank_) {
      wait_for(member, round_);
    }
  }
  return slot(rank_, round_);
}

void SharedMemoryChannel::publish() {
  Line& mine = line(rank_);
  mine.signatures[round_ % 2].store(signature_, std::memory_order_relaxed);
  // seq_cst here and in wait_for(): either this member sees the sleeper, or the
  // sleeper sees the new count.
  mine.published.store(round_ + 1, std::memory_order_seq_cst);
  if (mine.sleepers.load(std::memory_order_seq_cst) != 0) {
    futex_wake(mine.published);
  }
}

const std::byte* SharedMemoryChannel::await(int member) {
  wait_for(member, round_ + 1);
  const std::uint64_t theirs =
      line(member).signatures[round_ % 2].load(std::memory_order_relaxed);
  if (theirs != signature_) {
    throw CommError(
        {.what = fmt::format(
             "rank {} makes another call",
             names_[static_cast<std::size_t>(member)])});
  }
  return slot(member, round_);
}

void SharedMemoryChannel::wait_for(int member, std::uint32_t rounds) {
  Line& theirs = line(member);
  for (int i = 0; i < spins + yields; ++i) {
    if (reached(theirs.published.load(std::memory_order_acquire), rounds)) {
      return;
    }
    if (i < spins) {
      pause_briefly();
    } else {
      ::sched_yield();
    }
  }
  for (;;) {
    theirs.sleepers.fetch_add(1, std::memory_order_seq_cst);
    const std::uint32_t seen = theirs.published.load(std::memory_order_seq_cst);
    if (!reached(seen, rounds)) {
      futex_wait(theirs.published, seen);
    }
    theirs.sleepers.fetch_sub(1, std::memory_order_relaxed);
    if (reached(theirs.published.load(std::memory_order_acquire), rounds)) {
      return;
    }
    check_members(rounds);
  }
}

void SharedMemoryChannel::check_members(std::uint32_t rounds) const {
  if (abandoned_.load(std::memory_order_relaxed)) {
    throw CommError({.what = "given up"});
  }
  for (int member = 0; member < members(); ++member) {
    // holds() comes first: a member that is gone publishes no more, but may
    // have published before it went.
    if (!segment_.holds(member) && member != rank_ &&
        !reached(
            line(member).published.load(std::memory_order_acquire),
            rounds)) {
      throw CommError(
          {.what = fmt::format(
               "the connection to rank {} is lost: its process "
               "has left the shared memory",
               names_[static_cast<std::size_t>(member)])});
    }
  }
}

} // namespace cairn::distributed
