#pragma once

#include <filesystem>
#include <string>

namespace cairn::cli {

/// The prefix of a pair of token files. PREFIX.bin and PREFIX.idx are taken as
/// well, since shells complete to these.
std::filesystem::path dataset_prefix(const std::string& typed);

} // namespace cairn::cli
