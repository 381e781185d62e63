#pragma once

#include "distributed/mesh/group_arrangement.h"

#include <cairn/distributed/process_group.h>

#include <vector>

namespace cairn::distributed {

/// Returns arrange() of the groups that all ranks of `world` were given. Every
/// rank calls it with its own groups. Throws UsageError on every rank if the
/// groups are no mesh, and CommError if a rank does not come.
std::vector<int> agree_on_places(
    const ProcessGroup& world,
    const GivenGroups& mine);

} // namespace cairn::distributed
