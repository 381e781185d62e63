#include <cairn/base/mapped_file.h>

#include <cairn/base/error.h>
#include <cairn/base/file.h>

#include "base/internal/file_error.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

namespace cairn::inline base {
namespace {

int kernel_advice(MappedFile::Advice advice) {
  switch (advice) {
    case MappedFile::Advice::normal:
      return MADV_NORMAL;
    case MappedFile::Advice::sequential:
      return MADV_SEQUENTIAL;
    case MappedFile::Advice::random:
      return MADV_RANDOM;
    case MappedFile::Advice::will_need:
      return MADV_WILLNEED;
  }
  return MADV_NORMAL;
}

} // namespace

MappedFile::MappedFile(const std::filesystem::path& path, Advice advice) {
  // O_NONBLOCK, so that a pipe without a writer does not block here; a pipe is
  // refused below.
  const UniqueFd fd = open_file(path, O_RDONLY | O_NONBLOCK);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) {
    throw file_error("ask the size of", path, errno);
  }
  if (!S_ISREG(status.st_mode)) {
    throw DataError(
        {.what = "cannot map: not a regular file",
         .where = path.string(),
         .remedy = "give the path of a file on disk"});
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) {
    return;
  }
  void* const memory =
      ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) {
    throw file_error("map", path, errno, fmt::format("{} bytes", size));
  }
  bytes_ = {static_cast<const std::byte*>(memory), size};
  if (advice != Advice::normal) {
    advise(advice);
  }
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) {
    ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

void MappedFile::advise(Advice advice) const noexcept {
  if (!bytes_.empty()) {
    // Only a hint: the reads are correct even if the kernel ignores it.
    ::madvise(
        const_cast<std::byte*>(bytes_.data()),
        bytes_.size(),
        kernel_advice(advice));
  }
}

} // namespace cairn::base
