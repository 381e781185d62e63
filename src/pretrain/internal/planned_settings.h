#pragma once

#include "pretrain/internal/pretrain.h"

#include <cairn/config/config.h>
#include <cairn/plan/cluster.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace cairn::pretrain {

/// A configuration with the planner's answers in place of "auto".
struct PlannedConfig {
  config::Config config;
  std::vector<std::string> answers; ///< for the log, a line each
};

/// Loads a configuration. Where the JSON says "auto" for
/// train_micro_batch_size_per_gpu, zero_optimization.offload_optimizer.ratio or
/// pipeline.partition, the planner decides: the fastest of what fits the
/// machine. Without a machine, or for a model that the planner does not know,
/// these keys are as if they were left out. Throws ConfigError.
PlannedConfig load_planned(
    Kind kind,
    const config::ConfigSource& source,
    const std::function<std::optional<plan::Cluster>()>& machine);

} // namespace cairn::pretrain
