#pragma once

#include "checkpoints/megatron/rank_tensors.h"

#include <cairn/checkpoints/megatron.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// Megatron-Core has several spellings of experts: sequential ones, each with a
// module of its own ("local_experts.3.linear_fc1.weight"), Transformer Engine's
// grouped ones ("linear_fc1.weight3", or "linear_fc1.weight" for all of a
// rank), and older grouped ones, whose weights are one matrix ("weight1"). Its
// format torch_dist has one tensor for all experts of all ranks
// ("experts.linear_fc1.weight"), which is the spelling used here.

namespace cairn::checkpoints::megatron {

/// Puts the experts' tensors of a tensor rank together: [experts, …] under the
/// names of torch_dist. `parts` are the expert parallel ranks that have some
/// each, with the other tensors taken from the first. `experts`: number of
/// experts in a layer, which older grouped weights do not tell.
RankTensors with_stacked_experts(
    std::vector<RankTensors> parts,
    std::int64_t experts);

/// True for the name of a tensor of experts, of one or of all.
bool is_of_experts(std::string_view name);

/// The parameters of experts, or the others.
std::vector<OrderedParameter> only_experts(
    std::vector<OrderedParameter> parameters,
    bool experts);

/// The place of an expert's tensor among those of its layer, in the order of
/// their modules: sequential experts follow each other, of grouped ones the
/// first products come before the second ones.
std::int64_t place_among_experts(std::string_view name);

/// The path of one expert's tensor in a rank's file: sequential under the names
/// of the local layers, else Transformer Engine's. `path` is that of all.
std::string path_of_expert(
    const std::string& path,
    std::int64_t expert,
    MegatronNames names);

} // namespace cairn::checkpoints::megatron
