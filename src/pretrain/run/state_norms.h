#pragma once

#include <cairn/config/optimizer_config.h>
#include <cairn/engine/engine.h>
#include <cairn/monitor/iteration.h>

namespace cairn::pretrain {

/// Throws ConfigError for an optimizer without both of Adam's moments, which
/// `--log-optimizer-states-to-tensorboard` is about.
void require_moments(const config::OptimizerConfig& config);

/// Of weights and moments, over all ranks, which all call it.
monitor::OptimizerNorms optimizer_norms(Engine& engine);

} // namespace cairn::pretrain
