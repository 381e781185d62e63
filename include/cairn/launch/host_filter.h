#pragma once

#include <cairn/launch/hostfile.h>

#include <string_view>
#include <vector>

namespace cairn::launch {

/// The part of `pool` that `filter` names, as DeepSpeed's --include does:
/// `worker-0@worker-1:0,2` is every slot of worker-0 and slots 0 and 2 of
/// worker-1. Hosts keep the order of the pool. A host or slot that the pool
/// does not have is a ConfigError.
std::vector<Host> include_hosts(
    const std::vector<Host>& pool,
    std::string_view filter);

/// The part of `pool` that `filter` does not name, as DeepSpeed's --exclude
/// does. It is a ConfigError when nothing is left.
std::vector<Host> exclude_hosts(
    const std::vector<Host>& pool,
    std::string_view filter);

/// Writes hosts and slots as a filter that includes just them.
std::string to_filter(const std::vector<Host>& hosts);

/// Reads what `to_filter` wrote, where there is no pool to check against.
std::vector<Host> parse_hosts(std::string_view filter);

} // namespace cairn::launch
