#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

namespace cairn::cli {

/// The size of all files together, for a progress bar; 0 when one has no size,
/// such as standard input or a pipe.
std::uint64_t size_on_disk(std::span<const std::filesystem::path> files);

} // namespace cairn::cli
