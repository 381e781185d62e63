#include <cairn/io/io_queue.h>

#include "base/internal/file_calls.h"
#include "base/internal/file_error.h"
#include "base/internal/sync_file.h"
#include "io/open_file.h"
#include "io/unnamed_file.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

namespace cairn::io {
namespace {

std::shared_ptr<detail::OpenFile> open_twice(UniqueFd buffered, int flags) {
  // Not opened by its path again, which may be gone by now or lead to another
  // file.
  const std::string same = fmt::format("/proc/self/fd/{}", buffered.get());
  UniqueFd direct(file_calls().openat(
      AT_FDCWD,
      same.c_str(),
      flags | O_DIRECT | O_CLOEXEC,
      0));
  return std::make_shared<detail::OpenFile>(
      std::move(buffered),
      std::move(direct));
}

} // namespace

const char* to_string(Access access) {
  return access == Access::direct ? "direct" : "buffered";
}

AsyncFile::AsyncFile(
    std::shared_ptr<detail::OpenFile> file,
    std::filesystem::path path)
    : file_(std::move(file)),
      path_(std::make_shared<const std::filesystem::path>(std::move(path))) {}

AsyncFile AsyncFile::open_for_reading(const std::filesystem::path& path) {
  return {open_twice(open_file(path, O_RDONLY), O_RDONLY), path};
}

AsyncFile AsyncFile::create(const std::filesystem::path& path) {
  return {
      open_twice(open_file(path, O_RDWR | O_CREAT | O_TRUNC), O_RDWR),
      path};
}

AsyncFile AsyncFile::create_new(const std::filesystem::path& path) {
  return {open_twice(open_file(path, O_RDWR | O_CREAT | O_EXCL), O_RDWR), path};
}

AsyncFile AsyncFile::create_unnamed(const std::filesystem::path& folder) {
  return {open_twice(detail::open_unnamed(folder), O_RDWR), folder};
}

AsyncFile AsyncFile::slice(
    std::filesystem::path path,
    std::uint64_t offset,
    std::uint64_t size) const {
  if (size_ && (offset > *size_ || size > *size_ - offset)) {
    throw InternalError(
        {.what = "a slice that ends behind what it is cut from",
         .where = path_->string(),
         .values =
             fmt::format("offset {}, size {} of {}", offset, size, *size_)});
  }
  AsyncFile part(file_, std::move(path));
  part.offset_ = offset_ + offset;
  part.size_ = size;
  return part;
}

Access AsyncFile::access() const {
  return file_->direct_works ? Access::direct : Access::buffered;
}

void AsyncFile::reserve(std::uint64_t offset, std::uint64_t size) {
  const auto begin = static_cast<off_t>(offset_ + offset);
  const auto length = static_cast<off_t>(size);
  const int file = file_->buffered.get();
  while (size > 0 && file_calls().fallocate(file, 0, begin, length) != 0) {
    if (errno == EOPNOTSUPP) {
      const off_t end = ::lseek(file, 0, SEEK_END);
      if (end >= begin + length ||
          file_calls().ftruncate(file, begin + length) == 0) {
        return;
      }
    }
    if (errno != EINTR) {
      throw file_error(
          "take room on the disk",
          *path_,
          errno,
          fmt::format("{} bytes", size));
    }
  }
}

void AsyncFile::cut(std::uint64_t size) {
  while (
      file_calls().ftruncate(file_->buffered.get(), static_cast<off_t>(size)) !=
      0) {
    if (errno != EINTR) {
      throw file_error(
          "cut to its size",
          *path_,
          errno,
          fmt::format("{} bytes", size));
    }
  }
}

void AsyncFile::sync() {
  sync_file(file_->buffered.get(), *path_);
}

void AsyncFile::drop_cache() {
  ::posix_fadvise(file_->buffered.get(), 0, 0, POSIX_FADV_DONTNEED);
}

} // namespace cairn::io
