#pragma once

#include "checkpoints/internal/portable_checkpoint.h"

#include <filesystem>

namespace cairn::checkpoints {

/// Reads a universal checkpoint of DeepSpeed, of any model. `folder` is that of
/// a save, with "zero" in it.
Portable read_universal_checkpoint(const std::filesystem::path& folder);

} // namespace cairn::checkpoints
