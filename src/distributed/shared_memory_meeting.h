#pragma once

#include "group_backend.h"
#include "shared_memory_channel.h"

#include <chrono>
#include <memory>
#include <string>

namespace cairn::distributed {

/// Either a channel, or why there is none.
struct SharedMemoryOutcome {
  std::unique_ptr<SharedMemoryChannel> channel;
  std::string why_not;
};

/// All members of a group call it; all get a channel or none does: when one of
/// them does not want it, or cannot open what the first has made. Throws
/// CommError when someone does not come in time.
SharedMemoryOutcome meet_in_shared_memory(
    const GroupPlace& place,
    bool wanted,
    std::chrono::milliseconds timeout);

} // namespace cairn::distributed
