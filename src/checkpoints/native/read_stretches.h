#pragma once

#include "checkpoints/native/stored_file.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace cairn::checkpoints {

/// Some bytes of a file.
struct FileStretch {
  const StoredFile* file = nullptr;
  std::uint64_t at = 0;
  std::size_t size = 0;
};

struct ReadStretchesOptions {
  std::size_t threads = 1;
  /// True when data that is not in the page cache may be read past it: no other
  /// process wants it.
  bool past_cache = false;
};

/// Calls take(i, bytes) with the bytes of every stretch, in this order but on
/// several threads, each by whichever is free. The bytes are valid only during
/// the call. An exception from `take` ends the reading.
void read_stretches(
    std::span<const FileStretch> stretches,
    const ReadStretchesOptions& options,
    const std::function<void(std::size_t i, std::span<const std::byte>)>& take);

} // namespace cairn::checkpoints
