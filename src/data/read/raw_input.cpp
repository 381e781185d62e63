#include "data/read/raw_input.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>

#include "base/internal/file_error.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace cairn::data {
namespace {

constexpr std::size_t capacity = 1 << 20;

UniqueFd open_or_standard_input(const std::filesystem::path& path) {
  if (path == "-") {
    UniqueFd fd(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0));
    if (!fd) {
      throw file_error("open", "standard input", errno);
    }
    return fd;
  }
  return open_file(path, O_RDONLY);
}

} // namespace

RawInput::RawInput(const std::filesystem::path& path, int interrupt)
    : name_(path == "-" ? "standard input" : path.string()),
      fd_(open_or_standard_input(path)),
      interrupt_(interrupt),
      buffer_(capacity) {
  struct stat status {};
  if (::fstat(fd_.get(), &status) == 0 && S_ISREG(status.st_mode)) {
    size_ = static_cast<std::uint64_t>(status.st_size);
    ::posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  }
}

std::span<const char> RawInput::available() {
  return at_least(1);
}

std::span<const char> RawInput::at_least(std::size_t count) {
  while (end_ - begin_ < count && read_more()) {
  }
  return {buffer_.data() + begin_, end_ - begin_};
}

void RawInput::consume(std::size_t count) noexcept {
  begin_ += count;
  position_ += count;
}

bool RawInput::wait_for_bytes() const {
  pollfd waits[] = {
      {.fd = fd_.get(), .events = POLLIN, .revents = 0},
      {.fd = interrupt_, .events = POLLIN, .revents = 0}};
  while (::poll(waits, 2, -1) < 0) {
    if (errno != EINTR) {
      throw file_error("wait for", name_, errno);
    }
  }
  return waits[1].revents == 0;
}

std::size_t RawInput::read(std::span<char> out) {
  constexpr std::size_t much = 16 << 10;
  if (begin_ == end_ && out.size() >= much) {
    const std::size_t got = read_file(out);
    position_ += got;
    return got;
  }
  const auto bytes = available();
  const std::size_t count = std::min(bytes.size(), out.size());
  if (count > 0) {
    std::memcpy(out.data(), bytes.data(), count);
    consume(count);
  }
  return count;
}

bool RawInput::read_more() {
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  const std::size_t got = read_file(std::span(buffer_).subspan(end_));
  end_ += got;
  return got > 0;
}

std::size_t RawInput::read_file(std::span<char> out) {
  if (interrupt_ >= 0 && !wait_for_bytes()) {
    return 0;
  }
  for (;;) {
    const ssize_t got = ::read(fd_.get(), out.data(), out.size());
    if (got >= 0) {
      return static_cast<std::size_t>(got);
    }
    if (errno != EINTR) {
      throw file_error("read", name_, errno);
    }
  }
}

void RawInput::refuse(const std::string& what) const {
  throw DataError(
      {.what = what,
       .where = name_,
       .values = fmt::format("at byte {}", position_)});
}

void RawInput::refuse_torn() const {
  throw DataError(
      {.what = "ends in the middle of the compressed data",
       .where = name_,
       .values = fmt::format("after byte {}", position_),
       .remedy = "the file is torn: copy or download it again"});
}

} // namespace cairn::data
