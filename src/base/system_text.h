#pragma once

#include <filesystem>
#include <string>

namespace cairn::inline base {

/// The content of a file under /proc or /sys; empty where this kernel or
/// container has no such file.
std::string system_text(const std::filesystem::path& path);

} // namespace cairn::base
