#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

namespace cairn::cli {

/// Of all the files together, for a progress bar; 0 when one has no size, as
/// standard input and pipes.
std::uint64_t size_on_disk(std::span<const std::filesystem::path> files);

} // namespace cairn::cli
