#pragma once

#include <filesystem>
#include <vector>

namespace cairn::cli {

/// The lists that the inputs of a command name: in the place of a folder its
/// .txt files, by name. Throws DataError for a folder without any.
std::vector<std::filesystem::path> lists_in(
    const std::vector<std::filesystem::path>& inputs);

} // namespace cairn::cli
