#pragma once

#include <cairn/config/config.h>
#include <cairn/engine/engine.h>
#include <cairn/models/transformer.h>

#include <cstdint>
#include <functional>
#include <string_view>

namespace cairn::pretrain {

/// True when the run asks for CUDA graphs. Throws ConfigError, and says why,
/// where its passes cannot be recorded. `backend` is that of the group of all
/// ranks.
bool records_passes(
    const config::Config& config,
    std::string_view backend,
    at::Device device);

/// The forward pass of the engine's model, in the form that can be recorded.
RepeatablePass repeatable_pass(
    Engine& engine,
    std::function<models::ModelInput()> next,
    std::int64_t warm_up);

} // namespace cairn::pretrain
