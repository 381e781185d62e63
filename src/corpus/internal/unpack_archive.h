#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace cairn::corpus {

struct UnpackLimits {
  std::uint64_t bytes = std::uint64_t{64} << 30; ///< of all files together
  std::uint64_t files = 100'000;
};

/// Unpacks a zip, or a tar that may be compressed, into `folder`, and returns
/// the paths of the files. Each file appears only when it is complete; an
/// existing file is replaced. Throws DataError for names that lead out of the
/// folder, links and devices, wrong checksums, encrypted members, and more than
/// `limits`.
std::vector<std::filesystem::path> unpack_archive(
    const std::filesystem::path& archive,
    const std::filesystem::path& folder,
    const UnpackLimits& limits = {});

} // namespace cairn::corpus
