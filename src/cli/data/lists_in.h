#pragma once

#include <filesystem>
#include <vector>

namespace cairn::cli {

/// The help of a command's --input where it is read by lists_in().
inline constexpr const char* about_lists =
    "lists, compressed or not, or folders with .txt files; - for stdin";

/// The lists that the inputs of a command name: in the place of a folder its
/// .txt files, by name. Throws DataError for a folder without any.
std::vector<std::filesystem::path> lists_in(
    const std::vector<std::filesystem::path>& inputs);

} // namespace cairn::cli
