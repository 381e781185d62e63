#pragma once

#include "engine/build/job.h"
#include "engine/build/trained_model.h"
#include "engine/save/model_states.h"

#include <cairn/engine/states_estimate.h>
#include <torch/nn/module.h>

namespace cairn::inline engine {

/// The plan with the elements of a model.
ModelStatesPlan count_elements(
    const torch::nn::Module& module,
    ModelStatesPlan plan);

/// The plan of a training. Also works while the engine is being made.
ModelStatesPlan states_plan(const Job& job, const TrainedModel& trained);

StatesEstimate estimate_of(const ModelStatesPlan& plan);

} // namespace cairn::engine
