#include <cairn/base/file.h>

#include <cairn/base/error.h>

#include "base/internal/file_calls.h"
#include "base/internal/file_error.h"
#include "base/internal/sync_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

namespace cairn::inline base {
namespace {

constexpr std::size_t buffer_capacity = 256 << 10;

std::filesystem::path followed(std::filesystem::path path) {
  std::error_code error;
  if (std::filesystem::is_symlink(path, error)) {
    std::filesystem::path target = std::filesystem::canonical(path, error);
    if (error) {
      throw file_error("follow the symbolic link", path, error.value());
    }
    return target;
  }
  return path;
}

std::string random_name(const std::string& name) {
  std::uint64_t bits = 0;
  if (::getrandom(&bits, sizeof bits, 0) != sizeof bits) {
    throw std::system_error(errno, std::generic_category(), "getrandom");
  }
  // A file name has at most 255 bytes, and the temporary's name must fit too.
  return fmt::format(".{}.{:016x}.tmp", name.substr(0, 200), bits);
}

/// Tries random names until `make` succeeds with one, and returns that.
template <typename Make>
std::string take_name(const std::filesystem::path& path, Make&& make) {
  for (;;) {
    std::string name = random_name(path.filename().string());
    if (make(name.c_str())) {
      return name;
    }
    if (errno != EEXIST && errno != EINTR) {
      throw file_error("create a temporary file beside it", path, errno);
    }
  }
}

/// Opens a file without a name, so that nothing is left of it however the
/// process ends. Not every file system has nameless files, and giving one a
/// name later needs /proc.
UniqueFd open_nameless(int folder) {
  return UniqueFd(
      ::access("/proc/self/fd", X_OK) == 0
          ? file_calls()
                .openat(folder, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666)
          : -1);
}

} // namespace

AtomicFile::AtomicFile(std::filesystem::path path)
    : path_(followed(std::move(path))), name_(path_.filename().string()) {
  if (name_.empty() || name_ == "." || name_ == "..") {
    throw DataError(
        {.what = "not the name of a file", .where = path_.string()});
  }
  const std::filesystem::path folder =
      path_.has_parent_path() ? path_.parent_path() : ".";
  folder_ = open_file(folder, O_RDONLY | O_DIRECTORY);

  struct stat old {};
  const bool exists = ::fstatat(folder_.get(), name_.c_str(), &old, 0) == 0;
  if (exists && !S_ISREG(old.st_mode)) {
    // Renaming over /dev/null, as root, would break the machine.
    throw DataError(
        {.what = "only a regular file can be replaced",
         .where = path_.string(),
         .remedy = "give another path"});
  }
  file_ = open_nameless(folder_.get());
  if (!file_) {
    temporary_name_ = take_name(path_, [this](const char* name) {
      file_.reset(file_calls().openat(
          folder_.get(),
          name,
          O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
          0666));
      return static_cast<bool>(file_);
    });
  }
  if (exists && ::fchmod(file_.get(), old.st_mode & 07777) != 0) {
    const int error = errno;
    discard();
    throw file_error("keep its permissions", path_, error);
  }
  buffer_.reserve(buffer_capacity);
}

AtomicFile::~AtomicFile() {
  discard();
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  require_open();
  size_ += bytes.size();
  if (buffer_.size() + bytes.size() <= buffer_capacity) {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    return;
  }
  flush();
  if (bytes.size() < buffer_capacity) {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    return;
  }
  try {
    write_all(file_.get(), bytes, path_);
  } catch (...) {
    discard();
    throw;
  }
}

void AtomicFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text)));
}

void AtomicFile::commit() {
  require_open();
  flush();
  try {
    sync_file(file_.get(), path_);
    if (temporary_name_.empty()) {
      const std::string nameless = fmt::format("/proc/self/fd/{}", file_.get());
      temporary_name_ = take_name(path_, [&](const char* name) {
        return file_calls().linkat(
                   AT_FDCWD,
                   nameless.c_str(),
                   folder_.get(),
                   name,
                   AT_SYMLINK_FOLLOW) == 0;
      });
    }
    if (file_calls().renameat2(
            folder_.get(),
            temporary_name_.c_str(),
            folder_.get(),
            name_.c_str(),
            0) != 0) {
      throw file_error("replace", path_, errno);
    }
  } catch (...) {
    discard();
    throw;
  }
  temporary_name_.clear();
  file_.reset();
  sync_file(folder_.get(), path_);
}

void AtomicFile::require_open() const {
  if (!file_) {
    throw InternalError(
        {.what = "AtomicFile used after commit() or after a failure",
         .where = path_.string()});
  }
}

void AtomicFile::flush() {
  try {
    write_all(file_.get(), buffer_, path_);
  } catch (...) {
    // A file that lacks a part must never be committed.
    discard();
    throw;
  }
  buffer_.clear();
}

void AtomicFile::discard() noexcept {
  if (!temporary_name_.empty()) {
    file_calls().unlinkat(folder_.get(), temporary_name_.c_str(), 0);
    temporary_name_.clear();
  }
  file_.reset();
}

void write_file_atomically(
    const std::filesystem::path& path,
    std::span<const std::byte> bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

void write_file_atomically(
    const std::filesystem::path& path,
    std::string_view text) {
  write_file_atomically(path, std::as_bytes(std::span(text)));
}

} // namespace cairn::base
