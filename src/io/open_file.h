#pragma once

#include <cairn/base/unique_fd.h>

#include <atomic>
#include <utility>

namespace cairn::io::detail {

/// One file, opened twice: O_DIRECT belongs to the opening, not to the call.
struct OpenFile {
  OpenFile(UniqueFd through_cache, UniqueFd straight)
      : buffered(std::move(through_cache)),
        direct(std::move(straight)),
        direct_works(static_cast<bool>(direct)) {}

  int fd(bool straight) const { return (straight ? direct : buffered).get(); }

  UniqueFd buffered;
  UniqueFd direct; ///< none where the file system refuses
  /// Some file systems take O_DIRECT when opening and refuse every transfer.
  std::atomic<bool> direct_works;
};

} // namespace cairn::io::detail
