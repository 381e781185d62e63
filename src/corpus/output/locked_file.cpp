#include "corpus/output/locked_file.h"

#include <cairn/base/error.h>

#include "base/internal/file_error.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>

namespace cairn::corpus {

UniqueFd open_locked(const std::filesystem::path& path) {
  // Another process may rename or remove the file between our open and our
  // lock; then it is no longer the file of that name.
  for (;;) {
    UniqueFd fd = open_file(path, O_RDWR | O_CREAT);
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) {
        continue;
      }
      if (errno != EWOULDBLOCK) {
        throw file_error("lock", path, errno);
      }
      throw DataError(
          {.what = "another process is downloading to this file",
           .where = path.string(),
           .remedy = "wait for it, or end it and try again"});
    }
    struct stat ours {};
    struct stat named {};
    if (::fstat(fd.get(), &ours) == 0 && ::stat(path.c_str(), &named) == 0 &&
        ours.st_ino == named.st_ino && ours.st_dev == named.st_dev) {
      return fd;
    }
  }
}

} // namespace cairn::corpus
