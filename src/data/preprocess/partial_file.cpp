#include "data/preprocess/partial_file.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>

#include "base/internal/file_calls.h"
#include "base/internal/file_error.h"
#include "base/internal/sync_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <utility>

namespace cairn::data {
namespace {

std::filesystem::path partial_of(std::filesystem::path path) {
  path += ".partial";
  return path;
}

bool is_at(int fd, const std::filesystem::path& path) {
  struct stat held {};
  struct stat named {};
  return ::fstat(fd, &held) == 0 && ::stat(path.c_str(), &named) == 0 &&
      held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

UniqueFd open_locked(
    const std::filesystem::path& path,
    const std::filesystem::path& partial) {
  struct stat old {};
  if (::stat(path.c_str(), &old) == 0 && !S_ISREG(old.st_mode)) {
    throw DataError(
        {.what = "only a regular file can be replaced",
         .where = path.string(),
         .remedy = "give another path"});
  }
  for (;;) {
    UniqueFd fd = open_file(partial, O_RDWR | O_CREAT);
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) {
        throw DataError(
            {.what = "another program is writing this file",
             .where = partial.string(),
             .remedy = "wait for it, or give another output"});
      }
      if (errno != ENOLCK && errno != EOPNOTSUPP) {
        throw file_error("lock", partial, errno);
      }
    }
    // Between open and lock, the file's writer may have finished and renamed
    // it.
    if (is_at(fd.get(), partial)) {
      if (file_calls().ftruncate(fd.get(), 0) != 0) {
        const int problem = errno;
        // Nobody else uses the file, whose lock is ours.
        file_calls().unlinkat(AT_FDCWD, partial.c_str(), 0);
        throw file_error("empty", partial, problem);
      }
      return fd;
    }
  }
}

} // namespace

PartialFile::PartialFile(std::filesystem::path path)
    : path_(std::move(path)),
      partial_(partial_of(path_)),
      file_(open_locked(path_, partial_), partial_) {}

PartialFile::~PartialFile() {
  if (!published_) {
    file_calls().unlinkat(AT_FDCWD, partial_.c_str(), 0);
  }
}

void PartialFile::sync() {
  file_.flush();
  sync_file(file_.fd(), partial_);
}

void PartialFile::publish() {
  if (file_calls()
          .renameat2(AT_FDCWD, partial_.c_str(), AT_FDCWD, path_.c_str(), 0) !=
      0) {
    throw file_error("rename to its final name", partial_, errno);
  }
  published_ = true;
}

void PartialFile::retract() noexcept {
  if (published_) {
    file_calls().unlinkat(AT_FDCWD, path_.c_str(), 0);
  }
}

} // namespace cairn::data
