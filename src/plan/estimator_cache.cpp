#include "plan/estimator_cache.h"

namespace cairn::plan {

const std::vector<PartShare>& EstimatorCache::shares(
    const Training& training,
    const RunLayout& run) {
  const Degrees key{run.tensor, run.expert, run.pipeline * run.chunks};
  auto found = shares_.find(key);
  if (found == shares_.end()) {
    found = shares_.emplace(key, part_shares(training, run)).first;
  }
  return found->second;
}

const pipeline::Schedule& EstimatorCache::schedule(
    const RunLayout& run,
    std::int64_t micro_batches) {
  const Order key{run.schedule, run.pipeline, micro_batches, run.chunks};
  auto found = schedules_.find(key);
  if (found == schedules_.end()) {
    found = schedules_
                .emplace(
                    key,
                    pipeline::make_schedule(
                        run.schedule,
                        static_cast<int>(run.pipeline),
                        static_cast<int>(micro_batches),
                        static_cast<int>(run.chunks)))
                .first;
  }
  return found->second;
}

} // namespace cairn::plan
