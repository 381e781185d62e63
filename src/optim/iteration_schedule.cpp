#include "optim/iteration_schedule.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

namespace cairn::optim {

std::vector<GroupValuesPatch> IterationSchedule::at(std::int64_t done) const {
  std::vector<GroupValuesPatch> patches(groups_);
  if (done == 0 && last_batch_iteration_ >= 0) {
    return patches;
  }
  for (std::size_t group = 0; group < groups_; ++group) {
    patches[group] = values(group, last_batch_iteration_ + done);
  }
  return patches;
}

std::vector<double> spread(
    const PerGroup& values,
    std::size_t groups,
    std::string_view key) {
  if (values.size() == groups) {
    return values;
  }
  if (values.size() == 1) {
    return std::vector<double>(groups, values[0]);
  }
  throw ConfigError(
      {.what = values.empty()
           ? "this value is required"
           : "there must be one value, or one for each parameter group",
       .where = fmt::format("scheduler.params.{}", key),
       .values = fmt::format("{} for {} groups", values.size(), groups)});
}

} // namespace cairn::optim
