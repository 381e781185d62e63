#pragma once

#include "checkpoints/megatron/rank_tensors.h"

#include <filesystem>

namespace cairn::checkpoints::megatron {

/// True for a folder of that format. Megatron-Core adds a file to those of
/// torch.distributed.checkpoint.
bool is_torch_dist(const std::filesystem::path& folder);

/// Reads a folder of Megatron's format "torch_dist", in which all layers of a
/// parameter are one tensor, and no tensor is cut for ranks. Throws
/// CheckpointError for a folder without a model of Megatron's.
Contents read_torch_dist(const std::filesystem::path& folder);

} // namespace cairn::checkpoints::megatron
