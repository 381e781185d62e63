#pragma once

#include "checkpoints/internal/portable_checkpoint.h"

#include <filesystem>
#include <string>

// Checkpoints as an engine saves and loads them (see
// engine/save/training_state.cpp and engine/save/restore_state.cpp): tensors
// "weight/NAME", "buffer/NAME" and "KIND/NAME", and counters in the manifest's
// state. The model's description is the state's "model".

namespace cairn::checkpoints {

/// Reads the checkpoint of that tag in a run's folder; without a tag, the
/// folder may also be that of one checkpoint.
Portable read_native(
    const std::filesystem::path& folder,
    const std::string& tag);

/// Writes a run's folder with one checkpoint. `optimizer` is the optimizer's
/// name, where its states leave it open.
void write_native(
    const std::filesystem::path& folder,
    Portable& portable,
    const std::string& optimizer);

} // namespace cairn::checkpoints
