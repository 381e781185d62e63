#include "base/internal/regular_file.h"

#include "base/internal/file_error.h"

#include <cairn/base/error.h>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <cerrno>

namespace cairn::inline base {
namespace {

/// True for a pipe without a name in a file system.
bool is_nameless_pipe(int fd) {
  struct statfs system {};
  return ::fstatfs(fd, &system) == 0 && system.f_type == PIPEFS_MAGIC;
}

/// The kind of file that is refused; nullptr for one that is taken.
const char* refused_kind(int fd, const struct stat& status) {
  if (S_ISFIFO(status.st_mode) && !is_nameless_pipe(fd)) {
    return "a named pipe";
  }
  if (S_ISBLK(status.st_mode)) {
    return "a device";
  }
  if (S_ISCHR(status.st_mode) && status.st_rdev != makedev(1, 3)) {
    return "a device"; // 1, 3 is /dev/null
  }
  return nullptr;
}

} // namespace

UniqueFd open_regular_file(
    const std::filesystem::path& path,
    int flags,
    unsigned mode) {
  UniqueFd fd = open_file(path, flags | O_NONBLOCK, mode);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) {
    throw file_error("ask the kind of", path, errno);
  }
  if (const char* const kind = refused_kind(fd.get(), status)) {
    throw DataError(
        {.what = std::string("is ") + kind + ", no regular file",
         .where = path.string(),
         .remedy = "give the path of a file on disk"});
  }
  ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) & ~O_NONBLOCK);
  return fd;
}

} // namespace cairn::base
