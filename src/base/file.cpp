#include <cairn/base/file.h>

#include "base/internal/file_calls.h"
#include "base/internal/file_error.h"
#include "base/internal/regular_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace cairn::inline base {
namespace {

/// Size of the first buffer: the file's size where it has one, else a guess.
std::size_t first_room(int fd, std::uint64_t limit) {
  constexpr std::uint64_t guess = 16 << 10;
  struct stat status {};
  const bool sized = ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  // The buffer has a byte more than the size, so that one more read(2) sees the
  // end.
  const std::uint64_t wanted =
      sized ? static_cast<std::uint64_t>(status.st_size) + 1 : guess;
  return static_cast<std::size_t>(std::min(std::max(wanted, guess), limit + 1));
}

} // namespace

UniqueFd open_file(
    const std::filesystem::path& path,
    int flags,
    unsigned mode) {
  for (;;) {
    UniqueFd fd(
        file_calls().openat(AT_FDCWD, path.c_str(), flags | O_CLOEXEC, mode));
    if (fd) {
      return fd;
    }
    if (errno != EINTR) {
      throw file_error("open", path, errno);
    }
  }
}

std::string read_file(const std::filesystem::path& path, std::uint64_t limit) {
  // At most limit + 1 bytes are read, to tell "exactly the limit" from "more".
  limit = std::min<std::uint64_t>(limit, std::string().max_size() - 1);
  const UniqueFd fd = open_regular_file(path, O_RDONLY);
  std::string text(first_room(fd.get(), limit), '\0');
  std::size_t size = 0;
  for (;;) {
    const ssize_t got =
        ::read(fd.get(), text.data() + size, text.size() - size);
    if (got < 0) {
      if (errno == EINTR) {
        continue;
      }
      throw file_error("read", path, errno, fmt::format("{} bytes read", size));
    }
    size += static_cast<std::size_t>(got);
    if (size > limit) {
      throw DataError(
          {.what = "the file is too large",
           .where = path.string(),
           .values = fmt::format("at most {} bytes are accepted", limit),
           .remedy = "check that this is the file you meant"});
    }
    if (got == 0) {
      text.resize(size);
      return text;
    }
    if (size == text.size()) {
      text.resize(static_cast<std::size_t>(
          std::min<std::uint64_t>(std::uint64_t{size} * 2, limit + 1)));
    }
  }
}

void write_all(
    int fd,
    std::span<const std::byte> bytes,
    const std::filesystem::path& path) {
  std::size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t put =
        file_calls().write(fd, bytes.data() + written, bytes.size() - written);
    if (put < 0 && errno == EINTR) {
      continue;
    }
    if (put <= 0) {
      throw file_error(
          "write",
          path,
          put < 0 ? errno : EIO,
          fmt::format("{} of {} bytes written", written, bytes.size()));
    }
    written += static_cast<std::size_t>(put);
  }
}

} // namespace cairn::base
