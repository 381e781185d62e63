#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

// Arguments of Engine::save_checkpoint() and load_checkpoint().

namespace cairn::inline engine {

struct ClientValue;
/// Values that a program keeps in checkpoints beside the model, such as its
/// iteration or a generator's state. Rank 0's are the ones saved;
/// SaveOptions::of_rank has those of each rank.
using ClientState = std::map<std::string, ClientValue>;

/// A text may hold any bytes.
struct ClientValue : std::variant<
                         bool,
                         std::int64_t,
                         double,
                         std::string,
                         at::Tensor,
                         std::vector<ClientValue>,
                         ClientState> {
  using variant::variant;
};

/// Options of save_checkpoint(): the parts to write, and when it returns.
struct SaveOptions {
  /// True: it returns when everything is on the disk. False: it returns when
  /// the values are copied; they are written while training goes on. Unset: the
  /// configuration's `checkpoint.async` decides.
  std::optional<bool> wait{};
  bool optimizer = true; ///< its states
  bool rng = true;       ///< states of the random generators
  /// Values of this rank alone, such as a generator of its own. Among as many
  /// ranks, load_checkpoint() gives each rank its own back, over those of the
  /// client state with the same names.
  ClientState of_rank{};
};

/// Options of load_checkpoint(): the parts to take besides the weights.
struct LoadOptions {
  bool optimizer = true; ///< its states, and the loss scaler
  bool schedule = true;  ///< where the learning rate stands
  bool rng = true;       ///< states of the random generators
  bool steps = true;     ///< the number of updates so far
  bool data = true;      ///< where the loader stands

  /// Options for fine-tuning: everything but the weights starts anew.
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
