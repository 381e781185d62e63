#pragma once

#include "checkpoints/dcp/folder.h"

#include <cairn/checkpoints/lazy_tensor.h>
#include <cairn/checkpoints/python_value.h>
#include <cairn/model/description.h>

#include <optional>
#include <string>
#include <vector>

// Llama under torchtitan's names.

namespace cairn::checkpoints::dcp {

/// True for a folder with torchtitan's names.
bool is_titan(const Folder& saved);

/// The model. Its sizes are those of the tensors; heads, positions and the base
/// of rotary positions, which no tensor shows, come from `args` (an
/// argparse.Namespace with Megatron's names; or None). nullopt if one of these
/// is missing.
std::optional<model::ModelDescription> titan_description(
    const Folder& saved,
    const PythonValue& args);

/// The tensor of one of Cairn's parameters. Every name in the folder begins
/// with `prefix` and ends with `suffix`: both are empty for the weights.
LazyTensor titan_tensor(
    const Folder& saved,
    const model::ModelDescription& description,
    const std::string& parameter,
    const std::string& prefix,
    const std::string& suffix);

/// torchtitan's name of one of Cairn's parameters. Joined queries, keys and
/// values have three.
std::vector<std::string> titan_names(
    const Folder& saved,
    const std::string& parameter);

/// Throws ConfigError for a model that torchtitan's Llama is not.
void check_titan(const model::ModelDescription& description);

/// The tensors that torchtitan has of one of Cairn's parameters, or of a state
/// of its shape, under its newest names: one, or the queries, keys and values.
NamedTensors titan_parts(
    const model::ModelDescription& description,
    const std::string& parameter,
    const LazyTensor& tensor);

} // namespace cairn::checkpoints::dcp
