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
  /// True when the manifest was held against its checksum.
  bool manifest_checked = false;
  std::size_t files = 0;
  std::size_t tensors = 0;
  /// Bytes of elements that were compared with their checksums.
  std::uint64_t bytes = 0;
  std::vector<std::string> faults; ///< what is surely wrong
  /// Counts that are unlikely, where no checksum can settle it: the checkpoint
  /// may be right all the same.
  std::vector<std::string> doubts;
};

/// Reads all of one checkpoint and checks:
/// - the manifest against its checksum, or, where it is of a version without,
///   its counts against each other, which yields doubts;
/// - that each file is there, whole, and says of its tensors what the manifest
///   says;
/// - each checksum;
/// - that the slices of a tensor are its elements, once each;
/// - that no other files lie in the folder.
///
/// `advance` is called with the bytes as they are read.
VerifyReport verify_native(
    const std::filesystem::path& folder,
    const std::function<void(std::uint64_t)>& advance = {});

} // namespace cairn::checkpoints
