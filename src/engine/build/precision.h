#pragma once

#include "zero/internal/state_types.h"

#include <c10/core/ScalarType.h>
#include <cairn/config/deepspeed_config.h>

#include <string>

namespace cairn::inline engine {

/// The types of a training's tensors; resolved once, printed at the start.
struct Precision {
  at::ScalarType compute = at::kFloat;     ///< parameters and activations
  at::ScalarType accumulate = at::kFloat;  ///< gradients over micro batches
  at::ScalarType communicate = at::kFloat; ///< gradients between ranks
  bool autocast = false; ///< amp: fp32 parameters, operators choose
  at::ScalarType autocast_type = at::kBFloat16;
  zero::StateTypes optimizer{};
};

/// Throws ConfigError for settings that cannot be combined.
Precision precision_of(const config::DeepSpeedConfig& config, bool on_gpu);

/// A line such as `precision: bf16 compute, fp32 weights in the optimizer, fp32
/// gradient accumulation, bf16 communication`.
std::string describe(const Precision& precision);

} // namespace cairn::engine
