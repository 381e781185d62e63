#include "engine/step/rate_schedule.h"

#include <algorithm>

namespace cairn::inline engine {

void RateSchedule::apply_to(std::vector<optim::GroupValues>& groups) const {
  if (!schedule_) {
    return;
  }
  const auto patches = schedule_->at(steps_);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    patches[std::min(g, patches.size() - 1)].apply_to(groups[g]);
  }
}

} // namespace cairn::engine
