#pragma once

#include <cairn/config/optimizer_config.h>
#include <cairn/engine/engine.h>
#include <cairn/monitor/run_values.h>

namespace cairn::pretrain {

/// Throws ConfigError for an optimizer without both of Adam's moments, which
/// `--log-optimizer-states-to-tensorboard` needs.
void require_moments(const config::OptimizerConfig& config);

/// Norms of weights and moments over all ranks. Every rank calls it.
monitor::OptimizerNorms optimizer_norms(Engine& engine);

} // namespace cairn::pretrain
