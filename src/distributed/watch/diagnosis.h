#pragma once

#include "distributed/watch/notes.h"

#include <map>
#include <string>

namespace cairn::distributed {

/// A line that names the rank to look at: a rank that is gone, that runs
/// another operation, or that has not come yet, and where it is instead.
/// `notes` holds the answers of the `world_size` ranks; a rank without notes
/// did not answer.
std::string diagnose(
    const Alarm& alarm,
    const std::map<int, Notes>& notes,
    int world_size);

} // namespace cairn::distributed
