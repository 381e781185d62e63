#pragma once

#include "notes.h"

#include <map>
#include <string>

namespace cairn::distributed {

/// One line that names the rank to look at: gone, on another operation, or not
/// there yet, and where it is instead. `notes` holds what each of the
/// `world_size` ranks had to say; a rank without notes did not answer.
std::string diagnose(
    const Alarm& alarm,
    const std::map<int, Notes>& notes,
    int world_size);

} // namespace cairn::distributed
