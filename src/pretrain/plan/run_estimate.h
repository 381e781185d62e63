#pragma once

#include <cairn/config/config.h>
#include <cairn/distributed/init_distributed.h>
#include <cairn/model/description.h>
#include <cairn/monitor/run_values.h>
#include <cairn/plan/cluster.h>
#include <cairn/plan/estimate.h>

#include <optional>
#include <string>

namespace cairn::pretrain {

/// What the planner says of a run on the machine that it starts on.
struct RunPrediction {
  std::optional<plan::Estimate> estimate;
  plan::Training training;
  plan::Cluster machine;
  std::string why_not; ///< there is no estimate
};
RunPrediction predict_run(
    const model::ModelDescription& model,
    const config::Config& config,
    const distributed::World& world);

/// "by plan: 12.3 GB of each rank's 150.7 GB, 0.21 s an iteration", with what
/// is lacking if it does not fit.
std::string describe(const RunPrediction& prediction);

/// The memory of a rank by component, and the cheapest change that makes the
/// run fit, for someone whose memory has run out.
std::string memory_by_plan(const RunPrediction& prediction);

/// The estimate for the run's log.
std::optional<monitor::RunEstimate> log_event(
    const RunPrediction& prediction,
    std::int64_t step);

} // namespace cairn::pretrain
