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

/// What every rank of a stage has of the model, before ZeRO cuts it.
struct StageShape {
  std::int64_t blocks = 0;
  std::int64_t held = 0;    ///< parameters
  std::int64_t owned = 0;   ///< without copies of other stages' weights
  std::int64_t experts = 0; ///< of both: parameters of the experts it has
};

/// Bytes of parameters, gradients and optimizer on one rank, by where they
/// rest.
struct StateBytes {
  double device = 0;
  double cpu = 0;
  double nvme = 0;
};

/// A run on its ranks, worked out without starting any: so a world of 1024
/// ranks can be looked at on a laptop.
struct RunShape {
  model::ModelKind kind{};
  model::ModelDescription model;
  model::ParameterCount parameters; ///< with the vocabulary's padding
  std::int64_t sequence = 0;
  std::vector<StageShape> stages;
  std::size_t largest = 0; ///< the stage with the most parameters
  zero::Policy policy;
  /// Of the largest stage; none where the optimizer's are not known.
  std::optional<StateBytes> states;
};

/// Throws ConfigError for what does not divide or is missing.
RunShape shape_of(model::ModelKind kind, const config::Config& config);

/// Lines for people.
std::string describe(const RunShape& shape, const config::Config& config);

/// With `elasticity`: the batch, and the ranks that can share it.
std::string shown_elasticity(const config::Config& config);

} // namespace cairn::cli
