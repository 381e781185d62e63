#pragma once

#include <filesystem>

namespace cairn::checkpoints {

/// Makes a folder with its parents; throws DataError if that fails.
void make_folder(const std::filesystem::path& folder);

} // namespace cairn::checkpoints
