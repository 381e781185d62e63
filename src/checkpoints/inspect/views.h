#pragma once

#include "checkpoints/internal/checkpoint_view.h"

#include <cairn/checkpoints/python_value.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace cairn::checkpoints {

// Each format has a function, which fills in all but `format`.

/// Views a checkpoint's folder, or of a run's folder the checkpoint that
/// loading takes.
CheckpointView view_native(const std::filesystem::path& folder);
CheckpointView view_deepspeed(const std::filesystem::path& folder);
CheckpointView view_megatron(const std::filesystem::path& folder);
CheckpointView view_dcp(const std::filesystem::path& folder);
CheckpointView view_huggingface(
    const std::filesystem::path& folder,
    WeightNames names);
CheckpointView view_torch(const std::filesystem::path& file);
CheckpointView view_safetensors(const std::filesystem::path& file);

/// The value as JSON; a value that JSON cannot hold is described in words.
Facts facts_of(const PythonValue& value);

/// Time as "2026-11-15T18:56:03Z".
std::string utc_time(std::int64_t nanoseconds);

/// Drops the tensors that are other names of another tensor.
void drop_ties(NamedTensors& tensors, const std::vector<Tie>& ties);

} // namespace cairn::checkpoints
