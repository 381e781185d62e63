#pragma once

#include "launch/internal/hostfile.h"

#include <cstddef>
#include <string>
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

/// The hosts of a job as the launcher on `hosts[node]` needs to know them: that
/// host with its slots, and of the others, to which it never talks, how many
/// ranks they have. `3x8@worker-3:0,1@96x8` is the fourth of a hundred hosts.
/// Every launcher of thousands has this text on its command line.
std::string world_seen_from(const std::vector<Host>& hosts, std::size_t node);

/// Parses what world_seen_from() wrote. The other hosts have made-up names.
std::vector<Host> parse_world(std::string_view world);

} // namespace cairn::launch
