#pragma once

#include "engine/build/precision.h"
#include "zero/internal/policy.h"

#include <cstdint>

namespace cairn::inline engine {

/// The numbers that decide the size of parameters, gradients and optimizer.
struct ModelStatesPlan {
  std::int64_t elements = 0; ///< elements of this rank, before they are cut
  std::int64_t expert_elements = 0; ///< elements in its experts
  int ranks = 1;
  int expert_ranks = 1; ///< ranks that have the same experts
  bool on_gpu = false;
  std::int64_t bucket_limit = 0; ///< elements of a message at most
  int optimizer_states = 0; ///< fp32 numbers per parameter, weights not counted
  Precision precision;
  zero::Policy policy;
};

/// Bytes of one rank on the device that computes.
struct ModelStates {
  std::int64_t parameters = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
  std::int64_t sum() const { return parameters + gradients + optimizer; }
};

/// The sizes by the formulas of the ZeRO paper.
ModelStates model_states_of(const ModelStatesPlan& plan);

} // namespace cairn::engine
