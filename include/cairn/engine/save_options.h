#pragma once

#include <optional>

namespace cairn::inline engine {

/// What save_checkpoint() writes, and when it returns.
struct SaveOptions {
  /// Whether it returns only when all is on the disk; else the values are
  /// copied, and written while training goes on. Unset: as `checkpoint.async`
  /// in the configuration says.
  std::optional<bool> wait{};
  bool optimizer = true; ///< its states
  bool rng = true;       ///< states of the random generators
};

/// What load_checkpoint() takes of a checkpoint besides the weights.
struct LoadOptions {
  bool optimizer = true; ///< its states, and the loss scaler
  bool schedule = true;  ///< where the learning rate stands
  bool rng = true;       ///< states of the random generators
  bool steps = true;     ///< how many there were
  bool data = true;      ///< where the loader stands

  /// To fine-tune: everything starts anew but the weights.
  static LoadOptions weights_only() {
    return {
        .optimizer = false,
        .schedule = false,
        .rng = false,
        .steps = false,
        .data = false};
  }
};

} // namespace cairn::engine
