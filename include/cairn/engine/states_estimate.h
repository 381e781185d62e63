#pragma once

#include <cairn/config/config.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <string>

namespace cairn::inline engine {

/// Bytes of each rank for the states of a training, on the device that
/// computes. Activations come on top: only a step can say how many.
struct StatesEstimate {
  std::int64_t parameters = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0; ///< fp32 weights and states
  std::int64_t buckets = 0;   ///< of gradients on their way to other ranks

  std::int64_t sum() const {
    return parameters + gradients + optimizer + buckets;
  }
  /// Returns the parts and their sum as words: "parameters 3.5 MB, gradients
  /// 3.5 MB, optimizer 7.0 MB: 14.0 MB".
  std::string describe() const;
};

/// Returns the bytes that a rank keeps of a model of any kind in training,
/// before anything of it is made. The configuration must be resolved for the
/// number of ranks:
///
///   const auto config = cairn::config::Config::load(
///       {.file = "ds.json", .world_size = 8});
///   cairn::estimate_states(*net, config).describe();
///
/// Throws ConfigError for settings that cannot be combined, and UsageError for
/// ranks that are no multiple of the degrees of parallelism.
StatesEstimate estimate_states(
    const torch::nn::Module& module,
    const config::Config& config,
    bool on_gpu = true);

} // namespace cairn::engine
