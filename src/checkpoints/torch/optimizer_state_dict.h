#pragma once

#include <cairn/checkpoints/lazy_tensor.h>
#include <cairn/checkpoints/stored_group.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

// The state_dict() of a torch.optim optimizer: states of numbered parameters,
// and groups of those numbers.

namespace cairn::checkpoints {

/// Names of the numbered parameters. They come from `order` (the names in the
/// optimizer's order) if there is one, from the file if it has them, else from
/// the order in the model and the shapes of the states. Throws CheckpointError
/// where that leaves a choice.
std::vector<StoredGroup> name_groups(
    const PythonValue& state_dict,
    const NamedTensors& model,
    const std::vector<std::string>& order);

/// States by name: "exp_avg/fc1.weight" and so on. Numbers become tensors
/// without dimensions; other values are left out.
NamedTensors optimizer_states(
    const PythonValue& state_dict,
    const std::vector<StoredGroup>& groups);

/// The state_dict of an optimizer, numbered in the order of the groups.
PythonValue optimizer_state_dict(
    const std::vector<StoredGroup>& groups,
    const NamedTensors& states);

/// A number or tensor of a state; nullopt for anything else.
std::optional<LazyTensor> state_tensor(const PythonValue& value);

std::map<std::int64_t, PythonValue> by_number(const PythonValue& dict);

/// A group's dict without its list of parameters.
PythonValue group_options(const PythonValue& group);
/// A group's dict with its list of parameters.
PythonValue group_dict(const StoredGroup& group, std::int64_t first_number);

/// The states of each parameter, as pairs of kind and tensor. Throws
/// CheckpointError for states of parameters that are in no group.
std::map<std::string, NamedTensors> states_by_parameter(
    const std::vector<StoredGroup>& groups,
    const NamedTensors& states);

} // namespace cairn::checkpoints
