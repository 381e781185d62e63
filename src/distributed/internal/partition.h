#pragma once

#include <cairn/distributed/process_group.h>

#include <string>
#include <vector>

namespace cairn::distributed {

/// Cuts a group into parts, of which each becomes a group. Every rank of
/// `group` calls it, with the ranks of its own part in the order of the new
/// group; a rank that is alone in its part gets a group of one. `name` may be
/// empty. Where the library can cut a connected group (NCCL), this is quicker
/// than ProcessGroup::subgroup(), which only the members call.
ProcessGroup partition(
    const ProcessGroup& group,
    const std::vector<int>& ranks,
    const std::string& name);

/// A second group of the same ranks, whose calls do not wait for those of the
/// first. Every rank of `group` calls it.
ProcessGroup second_group(const ProcessGroup& group);

} // namespace cairn::distributed
