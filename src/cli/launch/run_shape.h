#pragma once

#include "zero/internal/policy.h"

#include <cairn/config/config.h>
#include <cairn/model/description.h>
#include <cairn/model/parameters.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cairn::cli {

/// The part of the model that every rank of a stage has, before ZeRO cuts it.
struct StageShape {
  std::int64_t blocks = 0;
  std::int64_t held = 0;  ///< parameters
  std::int64_t owned = 0; ///< held, without copies of other stages' weights
  /// Parameters of its experts, within `held` and `owned`.
  std::int64_t experts = 0;
};

/// Bytes of parameters, gradients and optimizer on one rank, by where they are
/// kept.
struct StateBytes {
  double device = 0;
  double cpu = 0;
  double nvme = 0;
};

/// The layout of a run on its ranks, worked out without starting any: a laptop
/// can examine a world of 1024 ranks.
struct RunShape {
  model::ModelKind kind{};
  model::ModelDescription model;
  model::ParameterCount parameters; ///< with the vocabulary's padding
  std::int64_t sequence = 0;
  std::vector<StageShape> stages;
  std::size_t largest = 0; ///< the stage with the most parameters
  zero::Policy policy;
  /// The state of the largest stage; none if the optimizer's size is unknown.
  std::optional<StateBytes> states;
};

/// Throws ConfigError for sizes that do not divide or are missing.
RunShape shape_of(model::ModelKind kind, const config::Config& config);

/// The shape as lines for people.
std::string describe(const RunShape& shape, const config::Config& config);

/// The batch and the numbers of ranks that can share it, with `elasticity`.
std::string shown_elasticity(const config::Config& config);

} // namespace cairn::cli
