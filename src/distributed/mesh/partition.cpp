#include "distributed/internal/partition.h"

#include "distributed/backends/call_check.h"
#include "distributed/backends/group_core.h"
#include "distributed/internal/agreement.h"

#include <numeric>
#include <utility>

namespace cairn::distributed {

ProcessGroup partition(
    const ProcessGroup& group,
    const std::vector<int>& ranks,
    const std::string& name) {
  detail::GroupCore& whole = *Agreement::core_of(group);
  std::vector<int> global =
      CallCheck(whole, "partition", std::source_location::current())
          .own_part(ranks);
  std::string unique = detail::part_name(whole, ranks, name);
  if (!whole.watched) { // one rank, connected with nobody
    return ProcessGroup(
        detail::GroupCore::alone(whole.job, std::move(unique), global.front()));
  }
  return ProcessGroup(detail::GroupCore::make_part(
      whole,
      std::move(unique),
      std::move(global)));
}

ProcessGroup second_group(const ProcessGroup& group) {
  if (group.size() == 1) {
    return group;
  }
  std::vector<int> all(static_cast<std::size_t>(group.size()));
  std::iota(all.begin(), all.end(), 0);
  // A group that is made again gets a number after its name.
  return partition(group, all, group.name().substr(0, group.name().find('#')));
}

} // namespace cairn::distributed
