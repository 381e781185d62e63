#include "monitor/files/append_file.h"

#include "base/internal/file_calls.h"
#include "base/internal/file_error.h"
#include "base/internal/regular_file.h"

#include <cairn/base/file.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <system_error>
#include <utility>

namespace cairn::monitor {
namespace {

std::uint64_t size_of_open_file(int fd, const std::filesystem::path& path) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) {
    throw file_error("look at", path, errno);
  }
  if (!S_ISREG(status.st_mode)) {
    throw DataError(
        {.what = "is no regular file, and can hold no measurements",
         .where = path.string()});
  }
  return static_cast<std::uint64_t>(status.st_size);
}

/// The end of the last whole line within the first `size` bytes.
std::uint64_t end_of_lines(
    int fd,
    std::uint64_t size,
    const std::filesystem::path& path) {
  std::array<char, 4096> buffer{};
  while (size > 0) {
    const std::uint64_t start = size > buffer.size() ? size - buffer.size() : 0;
    const auto wanted = static_cast<std::size_t>(size - start);
    const ssize_t got =
        ::pread(fd, buffer.data(), wanted, static_cast<off_t>(start));
    if (got < 0) {
      throw file_error("read", path, errno);
    }
    const std::string_view text(buffer.data(), static_cast<std::size_t>(got));
    if (const auto at = text.rfind('\n'); at != text.npos) {
      return start + at + 1;
    }
    size = start;
  }
  return 0;
}

} // namespace

bool AppendFile::open(const std::filesystem::path& path, Begin begin) {
  if (path.has_parent_path()) {
    std::error_code error;
    std::filesystem::create_directories(path.parent_path(), error);
    if (error) {
      throw file_error("make the folder", path.parent_path(), error.value());
    }
  }
  const int only_new = begin == Begin::new_file ? O_EXCL : 0;
  try {
    file_ = open_regular_file(path, O_RDWR | O_CREAT | O_APPEND | only_new);
  } catch (const DataError&) {
    if (only_new != 0 && std::filesystem::exists(path)) {
      return false;
    }
    throw;
  }
  path_ = path;
  const std::uint64_t found = size_of_open_file(file_.get(), path);
  size_ = end_of_lines(file_.get(), found, path);
  if (size_ < found &&
      file_calls().ftruncate(file_.get(), static_cast<off_t>(size_)) != 0) {
    throw file_error("cut off half a line of", path, errno);
  }
  return true;
}

void AppendFile::add(std::string_view record) {
  held_ += record;
}

void AppendFile::flush() {
  if (held_.empty()) {
    return;
  }
  const std::string records = std::exchange(held_, {});
  try {
    write_all(file_.get(), std::as_bytes(std::span(records)), path_);
  } catch (const DataError&) {
    // Truncating needs no space; if it fails nevertheless, the first error says
    // more.
    static_cast<void>(
        file_calls().ftruncate(file_.get(), static_cast<off_t>(size_)));
    throw;
  }
  size_ += records.size();
}

} // namespace cairn::monitor
