#pragma once

#include <cairn/distributed/process_group.h>

#include <source_location>
#include <string>

namespace cairn::distributed {

/// ProcessGroup::all_gather_into() of something that has a name, the same on
/// all ranks. Ranks that gather different things of one size at the same time
/// fail with an error that says which rank gathers what, in shared memory and
/// over Gloo. NCCL moves what it is given; there the names only serve the error
/// of calls that do not fit.
Pending all_gather_named(
    const ProcessGroup& group,
    at::Tensor output,
    at::Tensor x,
    std::string name,
    std::source_location site = std::source_location::current());

} // namespace cairn::distributed
