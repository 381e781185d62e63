#include "engine/memory/memory_log.h"

#include "engine/internal/device_memory.h"
#include "engine/memory/states_plan.h"

#include <utility>

namespace cairn::inline engine {

void MemoryLog::begin(const TrainedModel& trained) const {
  if (speaks_) {
    job_.logger.info(
        "by plan, each rank: {}, and activations",
        estimate_of(states_plan(job_, trained)).describe());
  }
}

void MemoryLog::end_update(
    const TrainedModel& trained,
    const ActivationUse& activations) {
  if (!std::exchange(speaks_, false)) {
    return;
  }
  const MemoryReport report = memory_report(job_, trained, activations);
  job_.logger.info(
      "after the first update: activations {:.1f} MB, at most {:.1f} MB "
      "allocated",
      static_cast<double>(report.activations) / 1e6,
      static_cast<double>(report.most_allocated) / 1e6);
}

} // namespace cairn::engine
