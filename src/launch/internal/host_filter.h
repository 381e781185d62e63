#pragma once

#include "launch/internal/hostfile.h"

#include <string_view>
#include <vector>

namespace cairn::launch {

/// The part of `pool` that `filter` names, as in DeepSpeed's --include:
/// `worker-0@worker-1:0,2` is every slot of worker-0 and slots 0 and 2 of
/// worker-1. Hosts keep the order of the pool. Throws ConfigError for a host or
/// slot that the pool does not have.
std::vector<Host> include_hosts(
    const std::vector<Host>& pool,
    std::string_view filter);

/// The part of `pool` that `filter` does not name, as in DeepSpeed's --exclude.
/// Throws ConfigError when nothing is left.
std::vector<Host> exclude_hosts(
    const std::vector<Host>& pool,
    std::string_view filter);

/// A filter that includes exactly these hosts and slots.
std::string to_filter(const std::vector<Host>& hosts);

/// Parses a filter that to_filter() wrote, without a pool to check against.
std::vector<Host> parse_hosts(std::string_view filter);

} // namespace cairn::launch
