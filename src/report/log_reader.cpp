#include "report/log_reader.h"

#include "base/internal/file_error.h"

#include <cairn/base/file.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

namespace cairn::report {
namespace {

constexpr std::size_t longest_line = 16 << 20;
constexpr std::size_t chunk_size = 1 << 20;

} // namespace

bool LogReader::update() {
  const UniqueFd file = open_file(path_, O_RDONLY | O_NONBLOCK);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) {
    throw file_error("look at", path_, errno);
  }
  if (!S_ISREG(status.st_mode)) {
    throw DataError(
        {.what = "is no regular file, and no log of a run",
         .where = path_.string()});
  }
  const auto size = static_cast<std::uint64_t>(status.st_size);
  bool changed = false;
  if (status.st_dev != device_ || status.st_ino != inode_ || size < read_) {
    changed = read_ > 0;
    device_ = status.st_dev;
    inode_ = status.st_ino;
    read_ = 0;
    partial_.clear();
    too_long_ = false;
    records_ = {};
  }
  std::vector<char> chunk(chunk_size);
  while (true) {
    const ssize_t got = ::pread(
        file.get(),
        chunk.data(),
        chunk.size(),
        static_cast<off_t>(read_));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      throw file_error("read", path_, errno);
    }
    if (got == 0) {
      return changed;
    }
    read_ += static_cast<std::uint64_t>(got);
    changed = true;
    take({chunk.data(), static_cast<std::size_t>(got)});
  }
}

void LogReader::take(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    too_long_ = too_long_ || partial_.size() + part.size() > longest_line;
    if (too_long_) {
      partial_ = {};
    } else if (end == bytes.npos || !partial_.empty()) {
      partial_ += part;
    }
    if (end == bytes.npos) {
      return;
    }
    if (std::exchange(too_long_, false)) {
      records_.add_broken();
    } else if (partial_.empty()) {
      records_.add(part);
    } else {
      records_.add(std::exchange(partial_, {}));
    }
    bytes.remove_prefix(end + 1);
  }
}

} // namespace cairn::report
