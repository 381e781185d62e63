#pragma once

#include "checkpoints/megatron/rank_tensors.h"

#include <filesystem>

namespace cairn::checkpoints::megatron {

/// True for a folder with files of the layers of a pipeline, as DeepSpeed's
/// engine writes them: layer_02-model_00-model_states.pt.
bool has_layer_files(const std::filesystem::path& folder);

/// Reads the layers' files of a model of Megatron-DeepSpeed, and its args from
/// mp_rank_00_model_states.pt. Throws CheckpointError for a missing file.
Contents read_layer_files(const std::filesystem::path& folder);

/// Fills in what DeepSpeed's file of a model-parallel rank says about the
/// model: the args and the size of the vocabulary.
void read_model_states(const std::filesystem::path& file, Contents& contents);

} // namespace cairn::checkpoints::megatron
