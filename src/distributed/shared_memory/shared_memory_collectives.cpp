#include "distributed/shared_memory/shared_memory_collectives.h"

#include <algorithm>

namespace cairn::distributed {
namespace {

constexpr std::size_t slot_bytes = SharedMemoryChannel::slot_bytes;

/// Bytes up to which everyone reads everything: for so little data, one meeting
/// and more to add up beat two meetings.
constexpr std::size_t small_bytes = 256U << 10;
static_assert(small_bytes <= slot_bytes);

/// Alignment of the parts of a slot, in whole cache lines.
constexpr std::size_t line_bytes = 128;

std::size_t round_down(std::size_t bytes) {
  return bytes / line_bytes * line_bytes;
}

std::size_t rounds_for(std::size_t bytes, std::size_t per_round) {
  return (bytes + per_round - 1) / per_round;
}

std::size_t largest(const std::vector<Spans>& parts) {
  std::size_t result = 0;
  for (const Spans& part : parts) {
    result = std::max(result, part.size());
  }
  return result;
}

template <typename Visit>
void each_other(const SharedMemoryChannel& channel, Visit visit) {
  for (int member = 0; member < channel.members(); ++member) {
    if (member != channel.rank()) {
      visit(static_cast<std::size_t>(member));
    }
  }
}

/// Position, in the slot of member `from`, of the part for member `to`.
std::size_t lane(std::size_t from, std::size_t to) {
  return to < from ? to : to - 1;
}

/// Reduces a range of this member's part: its own values and those that the
/// others have staged for it.
class Reducer {
 public:
  Reducer(SharedMemoryChannel& channel, Reduction how)
      : channel_(channel),
        how_(how),
        staged_(static_cast<std::size_t>(channel.members())),
        inputs_(staged_.size()) {}

  /// Says where the values of `member` for this range begin.
  void stage(std::size_t member, const std::byte* values) {
    staged_[member] = values;
  }

  /// Reduces [begin, end) into `out`, and into `copy` as well if it is given.
  void run(
      const Spans& out,
      const Spans& mine,
      std::size_t begin,
      std::size_t end,
      std::byte* copy = nullptr) {
    mine.each(begin, end, [&](std::byte* own, std::size_t bytes, auto at) {
      const std::size_t from = begin + at;
      out.each(from, from + bytes, [&](std::byte* to, auto width, auto skip) {
        reduce_piece(to, own + skip, at + skip, width, copy);
      });
    });
  }

 private:
  void reduce_piece(
      std::byte* to,
      const std::byte* own,
      std::size_t offset,
      std::size_t bytes,
      std::byte* copy) {
    // Works in blocks, so that copied data are still in the innermost cache.
    const std::size_t block = copy ? 16U << 10 : bytes;
    for (std::size_t at = 0; at < bytes; at += block) {
      const std::size_t width = std::min(block, bytes - at);
      each_other(channel_, [&](std::size_t member) {
        inputs_[member] = staged_[member] + offset + at;
      });
      inputs_[static_cast<std::size_t>(channel_.rank())] = own + at;
      how_.kernel(
          to + at,
          inputs_.data(),
          channel_.members(),
          width / how_.element_bytes);
      if (copy) {
        std::memcpy(copy + offset + at, to + at, width);
      }
    }
  }

  SharedMemoryChannel& channel_;
  const Reduction how_;
  std::vector<const std::byte*> staged_;
  std::vector<const void*> inputs_;
};

/// Takes one round: everyone shows all it has and reduces all of it.
void all_reduce_small(
    SharedMemoryChannel& channel,
    const Spans& x,
    Reduction how) {
  x.copy_to(channel.open_round(), 0, x.size());
  channel.publish();
  Reducer reducer(channel, how);
  each_other(channel, [&](std::size_t member) {
    reducer.stage(member, channel.await(static_cast<int>(member)));
  });
  reducer.run(x, x, 0, x.size());
  channel.close_round();
}

/// Cuts `x` into equal parts of whole cache lines, the last ones shorter or
/// empty.
std::vector<Spans> split(const Spans& x, int members) {
  const auto count = static_cast<std::size_t>(members);
  const std::size_t width =
      rounds_for(rounds_for(x.size(), count), line_bytes) * line_bytes;
  std::vector<Spans> parts;
  for (std::size_t member = 0; member < count; ++member) {
    parts.push_back(x.slice(member * width, (member + 1) * width));
  }
  return parts;
}

} // namespace

// Everyone reduces one part and shows the result to the others. Both steps
// share their rounds: a round carries the results of one range and the values
// of the next, so there is one meeting per range.
void all_reduce(SharedMemoryChannel& channel, const Spans& x, Reduction how) {
  if (x.size() * static_cast<std::size_t>(channel.members()) <= small_bytes) {
    all_reduce_small(channel, x, how);
    return;
  }
  const auto self = static_cast<std::size_t>(channel.rank());
  const std::vector<Spans> parts = split(x, channel.members());
  const std::size_t width = round_down(slot_bytes / parts.size());
  const std::size_t ranges = rounds_for(largest(parts), width);
  Reducer reducer(channel, how);
  for (std::size_t range = 0; range <= ranges; ++range) {
    const std::size_t begin = range * width;
    const std::size_t end = begin + width;
    std::byte* const values = channel.open_round() + width;
    if (range < ranges) {
      each_other(channel, [&](std::size_t member) {
        parts[member].copy_to(values + lane(self, member) * width, begin, end);
      });
    }
    channel.publish();
    each_other(channel, [&](std::size_t member) {
      const std::byte* const slot = channel.await(static_cast<int>(member));
      if (range > 0) {
        parts[member].copy_from(slot, begin - width, begin);
      }
      reducer.stage(member, slot + (1 + lane(member, self)) * width);
    });
    if (range < ranges) {
      reducer.run(parts[self], parts[self], begin, end, channel.next_slot());
    }
    channel.close_round();
  }
}

void reduce_scatter(
    SharedMemoryChannel& channel,
    const Spans& output,
    const std::vector<Spans>& parts,
    Reduction how) {
  const auto self = static_cast<std::size_t>(channel.rank());
  const std::size_t width = round_down(slot_bytes / (parts.size() - 1));
  const std::size_t ranges = rounds_for(largest(parts), width);
  Reducer reducer(channel, how);
  for (std::size_t range = 0; range < ranges; ++range) {
    const std::size_t begin = range * width;
    const std::size_t end = begin + width;
    std::byte* const values = channel.open_round();
    each_other(channel, [&](std::size_t member) {
      parts[member].copy_to(values + lane(self, member) * width, begin, end);
    });
    channel.publish();
    each_other(channel, [&](std::size_t member) {
      const std::byte* const slot = channel.await(static_cast<int>(member));
      reducer.stage(member, slot + lane(member, self) * width);
    });
    reducer.run(output, parts[self], begin, end);
    channel.close_round();
  }
}

void all_gather(
    SharedMemoryChannel& channel,
    const std::vector<Spans>& outputs,
    const Spans& input) {
  const Spans& own = outputs[static_cast<std::size_t>(channel.rank())];
  const bool in_place = own == input;
  const std::size_t ranges = rounds_for(largest(outputs), slot_bytes);
  for (std::size_t range = 0; range < ranges; ++range) {
    const std::size_t begin = range * slot_bytes;
    const std::size_t end = begin + slot_bytes;
    std::byte* const slot = channel.open_round();
    input.copy_to(slot, begin, end);
    channel.publish();
    if (!in_place) {
      own.copy_from(slot, begin, end);
    }
    each_other(channel, [&](std::size_t member) {
      outputs[member].copy_from(
          channel.await(static_cast<int>(member)),
          begin,
          end);
    });
    channel.close_round();
  }
}

void broadcast(SharedMemoryChannel& channel, const Spans& x, int root) {
  for (std::size_t begin = 0; begin < x.size(); begin += slot_bytes) {
    const std::size_t end = begin + slot_bytes;
    std::byte* const slot = channel.open_round();
    if (channel.rank() == root) {
      x.copy_to(slot, begin, end);
      channel.publish();
    } else {
      channel.publish();
      x.copy_from(channel.await(root), begin, end);
    }
    channel.close_round();
  }
}

void barrier(SharedMemoryChannel& channel) {
  channel.open_round();
  channel.publish();
  each_other(channel, [&](std::size_t member) {
    channel.await(static_cast<int>(member));
  });
  channel.close_round();
}

} // namespace cairn::distributed
