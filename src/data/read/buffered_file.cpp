#include "data/read/buffered_file.h"

#include <cairn/base/file.h>

#include "base/internal/file_error.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

namespace cairn::data {
namespace {

constexpr std::size_t buffer_capacity = 1 << 20;
constexpr std::size_t worth_a_call = 64 << 10; ///< such a write is not buffered

} // namespace

BufferedFile::BufferedFile(UniqueFd fd, std::filesystem::path path)
    : fd_(std::move(fd)), path_(std::move(path)) {}

void BufferedFile::write(std::span<const std::byte> bytes) {
  size_ += bytes.size();
  if (bytes.size() >= worth_a_call) {
    flush();
    write_all(fd_.get(), bytes, path_);
    return;
  }
  if (buffer_.size() + bytes.size() > buffer_capacity) {
    flush();
  }
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

void BufferedFile::flush() {
  write_all(fd_.get(), buffer_, path_);
  buffer_.clear();
}

void BufferedFile::write_behind() noexcept {
  constexpr std::uint64_t worth_it = 8 << 20;
  const std::uint64_t written = size_ - buffer_.size();
  if (written - begun_ >= worth_it) {
    // Only a hint: the final sync reports any error.
    ::sync_file_range(
        fd_.get(),
        static_cast<off64_t>(begun_),
        static_cast<off64_t>(written - begun_),
        SYNC_FILE_RANGE_WRITE);
    begun_ = written;
  }
}

void BufferedFile::replay(
    std::size_t unit,
    const std::function<void(std::span<const std::byte>)>& take) {
  flush();
  std::vector<std::byte> piece(buffer_capacity / unit * unit);
  for (std::uint64_t position = 0; position < size_;) {
    const auto wanted = static_cast<std::size_t>(
        std::min<std::uint64_t>(piece.size(), size_ - position));
    std::size_t got = 0;
    while (got < wanted) {
      const ssize_t read = ::pread(
          fd_.get(),
          piece.data() + got,
          wanted - got,
          static_cast<off_t>(position + got));
      if (read < 0 && errno == EINTR) {
        continue;
      }
      if (read <= 0) {
        throw file_error("read back", path_, read < 0 ? errno : EIO);
      }
      got += static_cast<std::size_t>(read);
    }
    take({piece.data(), wanted});
    position += wanted;
  }
}

BufferedFile open_unnamed_file(const std::filesystem::path& beside) {
  const std::filesystem::path folder =
      beside.has_parent_path() ? beside.parent_path() : ".";
  UniqueFd fd(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!fd) {
    // Some file systems, NFS among them, have no nameless files.
    std::string name = (folder / ".cairn-XXXXXX").string();
    fd.reset(::mkostemp(name.data(), O_CLOEXEC));
    if (!fd) {
      throw file_error("create a temporary file beside it", beside, errno);
    }
    ::unlink(name.c_str());
  }
  return {std::move(fd), beside};
}

} // namespace cairn::data
