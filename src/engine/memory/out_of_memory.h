#pragma once

#include "engine/save/model_states.h"

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <vector>

namespace cairn::inline engine {

/// True when an allocator gave up: libtorch's on a GPU or the CPU, or the
/// standard library's.
bool is_out_of_memory(const std::exception& error);

/// A run that needs more memory than there is.
struct Shortage {
  ModelStatesPlan plan;
  std::int64_t micro_batch = 1;
  std::int64_t accumulation = 1;
  std::int64_t activations = 0; ///< bytes, measured; 0: not known yet
  bool checkpoints_activations = false;
  bool clients_optimizer = false; ///< an optimizer of torch::optim
  bool before_training = false;   ///< no activations are to blame
};

/// A change of the configuration, and about how many bytes it saves on the
/// device of the rank (none: not known).
struct Remedy {
  std::string what;
  std::optional<std::int64_t> saves;
};

/// Remedies that are not in use yet, the cheapest in training time first.
std::vector<Remedy> remedies(const Shortage& shortage);

/// The remedies for people, each on a line of its own.
std::string describe(const std::vector<Remedy>& remedies);

} // namespace cairn::engine
