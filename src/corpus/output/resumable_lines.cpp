#include "corpus/output/resumable_lines.h"

#include "base/internal/file_error.h"
#include "base/internal/sync_file.h"
#include "corpus/output/locked_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <utility>

namespace cairn::corpus {

ResumableLines::ResumableLines(
    std::filesystem::path path,
    const std::function<bool(std::string_view)>& take)
    : path_(std::move(path)), fd_(open_locked(path_)) {
  std::string buffer;
  std::uint64_t good = 0; // bytes of whole lines
  while (true) {
    constexpr std::size_t at_once = 1 << 20;
    const std::size_t had = buffer.size();
    buffer.resize(had + at_once);
    const ssize_t got = ::read(fd_.get(), buffer.data() + had, at_once);
    buffer.resize(had + (got > 0 ? static_cast<std::size_t>(got) : 0));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      throw file_error("read", path_, errno);
    }
    if (got == 0) {
      break;
    }
    std::size_t begin = 0;
    std::size_t searched = had;
    while (true) {
      const std::size_t end = buffer.find('\n', searched);
      if (end == std::string::npos) {
        break;
      }
      if (!take(std::string_view(buffer).substr(begin, end - begin))) {
        cut_at(good);
        return;
      }
      good += end + 1 - begin;
      begin = searched = end + 1;
    }
    buffer.erase(0, begin);
  }
  cut_at(good);
}

void ResumableLines::cut_at(std::uint64_t size) {
  if (::ftruncate(fd_.get(), static_cast<off_t>(size)) != 0 ||
      ::lseek(fd_.get(), static_cast<off_t>(size), SEEK_SET) < 0) {
    throw file_error("shorten", path_, errno);
  }
}

void ResumableLines::append(std::string_view line) {
  write_all(fd_.get(), std::as_bytes(std::span(line)), path_);
}

void ResumableLines::clear() {
  cut_at(0);
}

void ResumableLines::sync() {
  sync_file(fd_.get(), path_);
}

void ResumableLines::publish(const std::filesystem::path& name) {
  sync();
  if (::rename(path_.c_str(), name.c_str()) != 0) {
    throw file_error("rename", path_, errno);
  }
  path_ = name;
  sync_folder_of(path_);
}

} // namespace cairn::corpus
