#include "base/internal/remove_tree.h"

#include "base/internal/file_calls.h"
#include "base/internal/file_error.h"

#include <fcntl.h>

#include <cerrno>
#include <exception>

namespace cairn::inline base {

namespace {

namespace fs = std::filesystem;

void remove_entry(const fs::path& path, int flags) {
  if (file_calls().unlinkat(AT_FDCWD, path.c_str(), flags) != 0 &&
      errno != ENOENT) {
    throw file_error("delete", path, errno);
  }
}

} // namespace

void remove_tree(const fs::path& path) {
  std::error_code error;
  if (fs::symlink_status(path, error).type() != fs::file_type::directory) {
    remove_entry(path, 0);
    return;
  }
  for (fs::directory_iterator entry(path, error), end; entry != end && !error;
       entry.increment(error)) {
    remove_tree(entry->path());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw file_error("list", path, error.value());
  }
  remove_entry(path, AT_REMOVEDIR);
}

void discard_tree(const fs::path& path) noexcept {
  try {
    remove_tree(path);
  } catch (const std::exception&) {
    // The disk may be full or gone; the caller does not need to know.
  }
}

} // namespace cairn::base
