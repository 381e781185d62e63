#pragma once

#include "checkpoints/dcp/write.h"
#include "checkpoints/megatron/rank_model.h"

#include <cairn/checkpoints/lazy_tensor.h>
#include <cairn/checkpoints/megatron.h>
#include <cairn/checkpoints/python_value.h>
#include <cairn/model/description.h>

#include <map>
#include <string>
#include <vector>

namespace cairn::checkpoints::megatron {

/// The states of an Adam by kind, each in the order of model_parameters():
/// "exp_avg", "exp_avg_sq" and, for parameters in 16 bits, the fp32 copies as
/// `master_kind`. Throws CheckpointError if a parameter has none.
std::map<std::string, NamedTensors> states_by_kind(
    const model::ModelDescription& description,
    const MegatronOptimizer& optimizer);

/// The member "optimizer" of a rank's file. `model` has the rank's parameters,
/// `states` its part of each kind. Where ranks divide the experts, there are
/// two optimizers in a list: that of all other parameters, and that of the
/// experts.
PythonValue rank_optimizer(
    const RankModel& model,
    const std::map<std::string, RankModel>& states,
    const MegatronOptimizer& optimizer,
    bool two_optimizers);

/// Name of the file of a rank's distributed optimizer.
inline constexpr const char* flat_optimizer_file = "distrib_optim.pt";

/// The content of that file: flat buffers of one bucket, as runs without
/// --overlap-grad-reduce have them.
PythonValue flat_optimizer(
    const RankModel& model,
    const std::map<std::string, RankModel>& states);

/// A rank's file of the two optimizers of a model with experts. The first rank
/// among those that divide the experts also has the states of the parameters
/// that they share; the other ranks' files have None in their place.
PythonValue two_flat_optimizers(
    const RankModel& model,
    const std::map<std::string, RankModel>& states,
    bool first);

/// The member "optimizer" of a folder without ranks: all of it but tensors.
PythonValue common_optimizer(const MegatronOptimizer& optimizer);

/// The member "optimizer" of such a folder for the two optimizers of a model
/// with experts, by their numbers.
PythonValue two_common_optimizers(
    const MegatronOptimizer& optimizer,
    bool experts_have_biases);

/// The member "content_metadata" of such a folder.
PythonValue content_metadata(const MegatronOptimizer& optimizer);

/// The first part of the names that Adam's states of one kind have in a folder
/// without ranks, such as "optimizer.state.exp_avg.".
std::string state_prefix(
    const std::string& kind,
    const MegatronOptimizer& optimizer);

} // namespace cairn::checkpoints::megatron
