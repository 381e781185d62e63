#pragma once

#include "distributed/shared_memory/shared_memory_channel.h"
#include "distributed/shared_memory/shared_memory_reduce.h"
#include "distributed/shared_memory/shared_memory_spans.h"

#include <cstddef>
#include <vector>

namespace cairn::distributed {

/// The functions that reduce values of one type.
struct Reduction {
  ReduceKernel kernel;
  std::size_t element_bytes;
};

// Each function blocks until this member has done its part, and throws as the
// channel does. Lists have one entry per member.

/// Reduces `x` in place.
void all_reduce(SharedMemoryChannel& channel, const Spans& x, Reduction how);

/// Reduces this member's part of every input into `output`. `parts[m]` is the
/// part of this member's input that is meant for member m. All members' lists
/// agree in sizes; `output` is as large as this member's part.
void reduce_scatter(
    SharedMemoryChannel& channel,
    const Spans& output,
    const std::vector<Spans>& parts,
    Reduction how);

/// Gathers the inputs of all members: `outputs[m]` is where the input of member
/// m goes.
void all_gather(
    SharedMemoryChannel& channel,
    const std::vector<Spans>& outputs,
    const Spans& input);

/// Overwrites `x` in place with the values of `root`.
void broadcast(SharedMemoryChannel& channel, const Spans& x, int root);

void barrier(SharedMemoryChannel& channel);

} // namespace cairn::distributed
