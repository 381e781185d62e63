#pragma once

#include <filesystem>
#include <string>

namespace cairn::cli {

/// The prefix of a pair of token files, however it was typed: shells complete
/// to one of the files, PREFIX.bin or PREFIX.idx.
std::filesystem::path dataset_prefix(const std::string& typed);

} // namespace cairn::cli
