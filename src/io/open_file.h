#pragma once

#include <cairn/base/file.h>

#include <atomic>
#include <utility>

namespace cairn::io::detail {

/// A file, opened twice: O_DIRECT is a property of the opening, not of a call.
struct OpenFile {
  OpenFile(UniqueFd through_cache, UniqueFd straight)
      : buffered(std::move(through_cache)),
        direct(std::move(straight)),
        direct_works(static_cast<bool>(direct)) {}

  int fd(bool straight) const { return (straight ? direct : buffered).get(); }

  UniqueFd buffered;
  UniqueFd direct; ///< empty if the file system refuses
  /// False once a direct transfer was refused: some file systems accept
  /// O_DIRECT when opening and refuse every transfer.
  std::atomic<bool> direct_works;
};

} // namespace cairn::io::detail
