#pragma once

#include "engine/save/training_state.h"

#include <cairn/distributed/process_group.h>
#include <cairn/engine/engine_status.h>

#include <functional>
#include <string>
#include <vector>

// Figures about the state of a training. They are taken from what would be
// saved: there, too, the ranks together have every element once. All ranks of
// `world` call them.

namespace cairn::inline engine {

/// Norm of all parameters.
double parameter_norm(
    const TrainingState& state,
    const distributed::ProcessGroup& world);

/// Sums over the fp32 weights ("weight") and states of the optimizer
/// ("exp_avg"), in the order of `kinds`. Zero for states that it does not have.
std::vector<ElementSums> state_sums(
    const TrainingState& state,
    const distributed::ProcessGroup& world,
    const std::vector<std::string>& kinds);

/// Shows the weights that this rank speaks for.
void visit_weights(
    const TrainingState& state,
    const std::function<void(const checkpoints::TensorSlice& slice)>& visit);

} // namespace cairn::engine
