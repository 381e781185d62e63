#pragma once

#include <cairn/config/config.h>
#include <cairn/plan/estimate.h>

#include <optional>

namespace cairn::cli {

/// The size of a program's model, as `autotuning.model_info` or the file of
/// `model_info_path` says it.
struct ModelSize {
  double parameters = 0;
  double activation_bytes = 0; ///< of a micro batch of 1; 0: not said
  plan::StateBytes states;     ///< of each parameter
};

/// Unset if neither says it. Throws ConfigError for a file that does not.
std::optional<ModelSize> model_size(const config::Config& config);

/// Bytes that each rank needs at least: parameters, gradients and states as
/// the layout shares and places them, and activations if they are known.
double least_bytes(const ModelSize& model, const plan::RunLayout& layout);

} // namespace cairn::cli
