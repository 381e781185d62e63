#pragma once

#include "checkpoints/megatron/rank_tensors.h"

#include <filesystem>

namespace cairn::checkpoints::megatron {

/// True for a folder of DeepSpeed's engine at ZeRO stage 3: every data-parallel
/// rank has a file of the model, and none has its weights.
bool has_stage_3_files(const std::filesystem::path& folder);

/// True for a folder in which DeepSpeed's ZeRO keeps the optimizer.
bool has_zero_optimizer(const std::filesystem::path& folder);

/// Reads a model of Megatron-DeepSpeed from the parts that ZeRO 3 cut it into.
/// Throws CheckpointError for a missing file.
Contents read_stage_3_files(const std::filesystem::path& folder);

} // namespace cairn::checkpoints::megatron
