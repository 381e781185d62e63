#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::inline base {

/// Owns a file descriptor and closes it; holds -1 when it owns none.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    reset(other.release());
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }
  void reset(int fd = -1) noexcept;

 private:
  int fd_ = -1;
};

/// Calls open(2) with O_CLOEXEC, again after a signal; throws DataError with
/// the path and the reason. `mode` matters only when `flags` has O_CREAT.
UniqueFd open_file(
    const std::filesystem::path& path,
    int flags,
    unsigned mode = 0666);

/// Returns the whole file. A file of more than `limit` bytes is a DataError,
/// raised before more than that is in memory; this holds also for pipes and
/// /proc, whose size is unknown.
std::string read_file(const std::filesystem::path& path, std::uint64_t limit);

/// Writes all bytes, however many write(2) calls that takes. `path` is only for
/// the message of the DataError.
void write_all(
    int fd,
    std::span<const std::byte> bytes,
    const std::filesystem::path& path);

/// Replaces a file as a whole or not at all: whoever opens the path sees the
/// old content or the new, also after a crash or a power cut.
///
///   AtomicFile file("run/latest.json");
///   file.write(text);
///   file.commit();
///
/// The bytes go to a temporary file in the same folder that gets a name only at
/// commit(), so a killed process leaves nothing behind. (On a file system
/// without nameless files the temporary has a name from the start, and only the
/// destructor removes it.) A symbolic link is followed, and an existing file's
/// permissions are kept. A failure (full disk, no permission, no such folder)
/// is a DataError; the old file is then untouched and this object can only be
/// destroyed.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);

  /// Bytes written so far.
  std::uint64_t size() const noexcept { return size_; }

  /// Makes the content durable and visible: syncs the file, renames it, syncs
  /// the folder. If the folder's fsync fails, which is the only error possible
  /// after the rename, the new content is in place but not known to be durable.
  void commit();

 private:
  void require_open() const;
  void flush();
  void discard() noexcept;

  std::filesystem::path path_;
  std::string name_;
  std::string temporary_name_; ///< empty once there is no temporary to remove
  UniqueFd folder_;            ///< keeps meaning the same folder if it is moved
  UniqueFd file_;
  std::vector<std::byte> buffer_;
  std::uint64_t size_ = 0;
};

void write_file_atomically(
    const std::filesystem::path& path,
    std::span<const std::byte> bytes);
void write_file_atomically(
    const std::filesystem::path& path,
    std::string_view text);

} // namespace cairn::base
