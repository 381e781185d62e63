#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace cairn::checkpoints {

struct VerifyReport {
  std::int64_t step = 0;
  std::size_t files = 0;
  std::size_t tensors = 0;
  std::uint64_t bytes = 0; ///< of elements, held against their checksums
  std::vector<std::string> faults;
};

/// Reads all of one checkpoint: whether each file is there, whole, and says of
/// its tensors what the manifest does, each checksum, whether the slices of a
/// tensor are its elements once each, and whether files lie there that do not
/// belong to it. `advance` hears of bytes as they are read.
VerifyReport verify_native(
    const std::filesystem::path& folder,
    const std::function<void(std::uint64_t)>& advance = {});

} // namespace cairn::checkpoints
