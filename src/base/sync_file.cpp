#include "base/internal/sync_file.h"

#include <cairn/base/file.h>

#include "base/internal/file_calls.h"
#include "base/internal/file_error.h"

#include <fcntl.h>

#include <cerrno>

namespace cairn::inline base {

void sync_file(int fd, const std::filesystem::path& path) {
  while (file_calls().fsync(fd) != 0) {
    if (errno != EINTR) {
      throw file_error("write to disk", path, errno);
    }
  }
}

void sync_folder_of(const std::filesystem::path& path) {
  const std::filesystem::path folder =
      path.has_parent_path() ? path.parent_path() : ".";
  sync_file(open_file(folder, O_RDONLY | O_DIRECTORY).get(), folder);
}

} // namespace cairn::base
