#pragma once

#include <ATen/core/ivalue.h>
#include <torch/optim/optimizer.h>

#include <map>
#include <optional>
#include <string>

namespace cairn::zero {

/// The state of an optimizer of torch::optim for one parameter, by name:
/// tensors and numbers, as its own serialize() writes them.
using StateValues = std::map<std::string, c10::IValue>;

/// Unset for a state without serialize(). Empty for one that keeps nothing.
std::optional<StateValues> values_of(
    const torch::optim::OptimizerParamState& state);
void set_values(
    torch::optim::OptimizerParamState& state,
    const StateValues& values);

} // namespace cairn::zero
