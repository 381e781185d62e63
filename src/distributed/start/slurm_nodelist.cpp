#include "distributed/start/slurm_nodelist.h"

#include <cairn/base/error.h>
#include <fmt/core.h>

namespace cairn::distributed {
namespace {

[[noreturn]] void refuse(std::string_view nodelist) {
  throw ConfigError(
      {.what = fmt::format("\"{}\" is not a list of hosts", nodelist),
       .where = "SLURM_STEP_NODELIST or SLURM_NODELIST",
       .remedy = "expected something like node[03-05,7],login1; or set "
                 "MASTER_ADDR"});
}

} // namespace

std::string first_slurm_host(std::string_view nodelist) {
  std::string host;
  std::size_t at = 0;
  // A name may have several brackets: rack[1-2]node[3,4] starts at rack1node3.
  while (at < nodelist.size() && nodelist[at] != ',') {
    if (nodelist[at] == ']') {
      refuse(nodelist);
    }
    if (nodelist[at] != '[') {
      host += nodelist[at++];
      continue;
    }
    const std::size_t close = nodelist.find(']', at);
    if (close == std::string_view::npos) {
      refuse(nodelist);
    }
    const std::string_view choices = nodelist.substr(at + 1, close - at - 1);
    const std::string_view first =
        choices.substr(0, choices.find_first_of("-,"));
    if (first.empty() ||
        choices.find_first_not_of("0123456789-,") != std::string_view::npos) {
      refuse(nodelist);
    }
    host += first;
    at = close + 1;
  }
  if (host.empty() || host.find_first_of(" \t\n/") != std::string::npos) {
    refuse(nodelist);
  }
  return host;
}

} // namespace cairn::distributed
