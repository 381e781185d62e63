#pragma once

#include <ATen/core/ivalue.h>
#include <torch/optim/optimizer.h>

#include <map>
#include <string>

namespace cairn::zero {

/// The state of an optimizer of torch::optim for one parameter, by name:
/// tensors and numbers, as its own serialize() writes them. Empty if it has no
/// state.
using StateValues = std::map<std::string, c10::IValue>;

StateValues values_of(const torch::optim::OptimizerParamState& state);
void set_values(
    torch::optim::OptimizerParamState& state,
    const StateValues& values);

} // namespace cairn::zero
