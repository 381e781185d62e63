#pragma once

#include "checkpoint/convert/portable.h"

#include <filesystem>
#include <string>

// Checkpoints as an engine saves and loads them (see engine/core_checkpoint.cpp
// and core_restore.cpp): tensors "weight/NAME", "buffer/NAME" and "KIND/NAME",
// and counters in the manifest's state. A model's description is its "model".

namespace cairn::checkpoints {

/// Of a run's folder, or of one checkpoint's where there is no tag.
Portable read_native(
    const std::filesystem::path& folder,
    const std::string& tag);

/// Writes a run's folder with one checkpoint. `optimizer`: its name, where the
/// states leave it open.
void write_native(
    const std::filesystem::path& folder,
    Portable& portable,
    const std::string& optimizer);

} // namespace cairn::checkpoints
