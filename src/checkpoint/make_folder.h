#pragma once

#include <filesystem>

namespace cairn::checkpoints {

/// With its parents; DataError if it cannot be.
void make_folder(const std::filesystem::path& folder);

} // namespace cairn::checkpoints
