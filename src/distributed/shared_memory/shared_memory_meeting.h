#pragma once

#include "distributed/backends/group_backend.h"
#include "distributed/shared_memory/shared_memory_channel.h"

#include <chrono>
#include <memory>
#include <string>

namespace cairn::distributed {

/// A channel, or the reason why there is none.
struct SharedMemoryOutcome {
  std::unique_ptr<SharedMemoryChannel> channel;
  std::string why_not;
};

/// Sets up shared memory for a group. All members call it, and either all get a
/// channel or none does. None does when one member does not want it, or cannot
/// open the first member's memory. Throws CommError when a member does not come
/// in time.
SharedMemoryOutcome meet_in_shared_memory(
    const GroupPlace& place,
    bool wanted,
    std::chrono::milliseconds timeout);

} // namespace cairn::distributed
