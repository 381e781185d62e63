#include "corpus/output/spool_file.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <span>
#include <system_error>

namespace cairn::corpus {
namespace {

[[noreturn]] void fail(const char* what, const std::string& path) {
  const int error = errno;
  throw DataError(
      {.what =
           std::string(what) + ": " + std::generic_category().message(error),
       .where = path});
}

} // namespace

SpoolFile::SpoolFile(const std::filesystem::path& folder)
    : path_(folder / ".cairn-spool-XXXXXX") {
  // The file has a name for a moment: not every file system has nameless files.
  std::string name = path_.string();
  fd_ = UniqueFd(::mkostemp(name.data(), O_CLOEXEC));
  if (fd_.get() < 0) {
    fail("cannot make a temporary file", path_.string());
  }
  ::unlink(name.c_str());
}

void SpoolFile::append(std::string_view text) {
  constexpr std::size_t buffer_size = 1 << 20;
  buffer_ += text;
  size_ += text.size();
  if (buffer_.size() >= buffer_size) {
    flush();
  }
}

void SpoolFile::flush() {
  write_all(fd_.get(), std::as_bytes(std::span(buffer_)), path_);
  buffer_.clear();
}

std::string SpoolFile::read(std::uint64_t offset, std::size_t size) const {
  std::string text(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got = ::pread(
        fd_.get(),
        text.data() + done,
        size - done,
        static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      fail("cannot read a temporary file", path_.string());
    }
    done += static_cast<std::size_t>(got);
  }
  return text;
}

} // namespace cairn::corpus
