#pragma once

#include "checkpoints/megatron/rank_tensors.h"

#include <filesystem>

namespace cairn::checkpoints::megatron {

/// True for a folder with DeepSpeed's universal checkpoint: zero/NAME/fp32.pt.
bool is_universal(const std::filesystem::path& folder);

/// Reads the fp32 weights of a model of Megatron-DeepSpeed from a universal
/// checkpoint. Throws CheckpointError for one of another model.
Contents read_universal(const std::filesystem::path& folder);

} // namespace cairn::checkpoints::megatron
