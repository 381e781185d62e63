#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace cairn::inline engine {

/// How far an engine has trained, and figures of its last update.
struct EngineProgress {
  std::int64_t global_steps = 0; ///< updates, skipped ones included
  std::int64_t micro_steps = 0;
  std::int64_t global_samples = 0; ///< of those updates, over all ranks
  std::int64_t skipped_steps = 0;  ///< updates whose gradients overflowed
  double loss_scale = 1;
  /// Learning rates of the next update, of each parameter group.
  std::vector<double> learning_rates{};
  /// Zeros in the gradient of the last update, summed over all ranks; unset
  /// unless Engine::count_zeros_in_gradient() is on.
  std::optional<std::int64_t> zeros_in_gradient{};
};

} // namespace cairn::engine
