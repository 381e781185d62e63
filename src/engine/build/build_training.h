#pragma once

#include "engine/build/job.h"
#include "engine/build/trained_model.h"

#include <cairn/engine/optimizer.h>
#include <cairn/nn/later_values.h>
#include <torch/optim/optimizer.h>

#include <memory>
#include <vector>

namespace cairn::inline engine {

/// The model, groups and optimizer that a program wants to train.
struct TrainingRequest {
  Model model;
  /// Values of parameters without memory; null: there are none.
  std::shared_ptr<const nn::LaterValues> later_values;
  std::vector<ParameterGroup> groups; ///< empty: all parameters, one group
  /// Null: the optimizer that the configuration names.
  std::shared_ptr<torch::optim::Optimizer> client_optimizer;
  /// The promise of InitializeOptions::same_use_in_all_passes.
  bool same_use_in_all_passes = false;
};

/// Makes all that trains a model, except its pipeline. All ranks call it. If
/// memory does not suffice, the error explains remedies.
TrainedModel build_training(const Job& job, TrainingRequest request);

} // namespace cairn::engine
