#pragma once

#include "checkpoints/dcp/folder.h"
#include "checkpoints/megatron/rank_tensors.h"

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace cairn::checkpoints::megatron {

/// The file that Megatron-Core adds to those of torch.distributed.checkpoint.
inline constexpr const char* core_file = "metadata.json";
/// The args and what else is the same on all ranks. Today's Megatron-Core
/// writes them as an object among the others, and still reads this file.
inline constexpr const char* common_file = "common.pt";

/// True for a folder of that format.
bool is_torch_dist(const std::filesystem::path& folder);

/// Reads a folder of Megatron's format "torch_dist", in which all layers of a
/// parameter are one tensor, and no tensor is cut for ranks. Throws
/// CheckpointError for a folder without a model of Megatron's.
Contents read_torch_dist(const std::filesystem::path& folder);

/// True for the second name of the norm before a router, or of the bias of a
/// T5's head, behind a prefix such as "optimizer.state.exp_avg.". For that
/// norm, Megatron-Core's local layers and Transformer Engine's have one name
/// each, and our folders both.
bool is_second_name(
    const dcp::Folder& saved,
    std::string_view prefix,
    std::string_view name);

/// Adds a tensor, or the layers that it consists of, under the names of one
/// layer each. The first characters of its name, a prefix, are left out.
void add_stacked(
    const dcp::Folder& saved,
    const std::string& name,
    std::size_t prefix,
    const std::filesystem::path& file,
    RankTensors& rank);

} // namespace cairn::checkpoints::megatron
