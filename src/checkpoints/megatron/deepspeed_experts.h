#pragma once

#include "checkpoints/megatron/optimizer_contents.h"
#include "checkpoints/megatron/rank_tensors.h"

#include <filesystem>

// Experts of Megatron-DeepSpeed are DeepSpeed's: each has a file in the folder
// of a checkpoint, "layer_0_expert_2_mp_rank_00_model_states.pt" (the layer is
// counted among those with experts), and the optimizers of the ranks that
// divide the experts are in "expp_rank_1_mp_rank_00_optim_states.pt", or in
// ZeRO's files.

namespace cairn::checkpoints::megatron {

/// True for a folder with files of DeepSpeed's experts.
bool has_deepspeed_experts(const std::filesystem::path& folder);

/// Reads a model of Megatron-DeepSpeed whose experts have files of their own.
Contents read_deepspeed_experts(const std::filesystem::path& folder);

/// The states of such a model: of ZeRO 0 to 2.
OptimizerContents read_deepspeed_expert_optimizer(
    const std::filesystem::path& folder,
    const Contents& contents);

} // namespace cairn::checkpoints::megatron
