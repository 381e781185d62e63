#include "data/samples/build_lock.h"

#include "base/internal/regular_file.h"

#include <cairn/base/file.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace cairn::data {
namespace {

int lock(int fd, int operation) {
  while (::flock(fd, operation) != 0) {
    if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

// True when the locked file still has its name. The holder removes the file
// before it releases the lock, so a process that waited may hold a file that
// nobody else will ever see.
bool still_there(int fd, const std::filesystem::path& path) {
  struct stat held {};
  struct stat found {};
  return ::fstat(fd, &held) == 0 && ::stat(path.c_str(), &found) == 0 &&
      held.st_ino == found.st_ino && held.st_dev == found.st_dev;
}

} // namespace

BuildLock::BuildLock(
    std::filesystem::path path,
    std::string_view purpose,
    const Logger& logger)
    : path_(std::move(path)) {
  for (;;) {
    file_ = open_regular_file(path_, O_RDWR | O_CREAT);
    int error = lock(file_.get(), LOCK_EX | LOCK_NB);
    if (error == EWOULDBLOCK) {
      logger.info("waiting for another process that {}", purpose);
      error = lock(file_.get(), LOCK_EX);
    }
    if (error != 0 || still_there(file_.get(), path_)) {
      return;
    }
  }
}

BuildLock::~BuildLock() {
  ::unlink(path_.c_str());
}

} // namespace cairn::data
