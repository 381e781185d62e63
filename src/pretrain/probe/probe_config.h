#pragma once

#include "pretrain/probe/probe_input.h"

#include <cairn/config/config.h>
#include <cairn/model/description.h>

namespace cairn::pretrain {

/// The configuration of a probe, for a batch as the input has it. Without
/// `train` there is nothing to optimize, and the whole batch is one pass.
/// Throws ConfigError, also where ranks cannot share the model or the rows.
config::Config probe_config(
    config::ConfigSource source,
    const model::ModelDescription& model,
    const ProbeInput& input,
    bool train);

} // namespace cairn::pretrain
