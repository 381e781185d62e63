#pragma once

#include "shared_memory_channel.h"
#include "shared_memory_reduce.h"
#include "shared_memory_spans.h"

#include <cstddef>
#include <vector>

namespace cairn::distributed {

/// What is reduced: one type, one kernel.
struct Reduction {
  ReduceKernel kernel;
  std::size_t element_bytes;
};

// Each blocks until this member has done its part, and throws as the channel
// does. Lists have one entry per member.

/// In place.
void all_reduce(SharedMemoryChannel& channel, const Spans& x, Reduction how);

/// `parts` of this member's input, each for one member. All members' lists
/// agree in sizes; `output` is as large as this member's part.
void reduce_scatter(
    SharedMemoryChannel& channel,
    const Spans& output,
    const std::vector<Spans>& parts,
    Reduction how);

/// `outputs` are where each member's input goes here.
void all_gather(
    SharedMemoryChannel& channel,
    const std::vector<Spans>& outputs,
    const Spans& input);

/// In place.
void broadcast(SharedMemoryChannel& channel, const Spans& x, int root);

void barrier(SharedMemoryChannel& channel);

} // namespace cairn::distributed
