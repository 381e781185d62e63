#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

namespace cairn::io {

namespace detail {
struct OpenFile;
} // namespace detail

/// The way of a file's bytes: straight between disk and memory (O_DIRECT), or
/// through the kernel's page cache.
enum class Access { direct, buffered };

const char* to_string(Access access);

/// A file, or a slice of one, that an IoQueue reads and writes. A cheap handle:
/// copies and slices share the open file, which stays open while transfers on
/// it are under way.
///
/// The file is opened for direct access where the file system supports it
/// (tmpfs does not), and always for buffered access too: any part of a transfer
/// that is not aligned to `direct_alignment` in memory and in the file goes
/// through the page cache. Thus any transfer works, aligned transfers are fast,
/// and files have their exact size.
class AsyncFile {
 public:
  /// Opens an existing file.
  static AsyncFile open_for_reading(const std::filesystem::path& path);
  /// Creates a file; an existing one is emptied.
  static AsyncFile create(const std::filesystem::path& path);
  /// Creates a file; an existing one is an error.
  static AsyncFile create_new(const std::filesystem::path& path);
  /// Creates a file without a name in that folder: nobody else can open it, and
  /// the kernel frees its space when the process ends, however that happens.
  static AsyncFile create_unnamed(const std::filesystem::path& folder);

  /// Bytes [offset, offset + size) as a separate file, called `path` in error
  /// messages. Transfers beyond its end are refused.
  AsyncFile slice(
      std::filesystem::path path,
      std::uint64_t offset,
      std::uint64_t size) const;

  const std::filesystem::path& path() const { return *path_; }
  Access access() const;

  /// Extends the file to offset + size and allocates that space on disk now, so
  /// that no later write finds the disk full. Where the file system cannot
  /// allocate in advance, only the length is set. Bytes that were never written
  /// read as zero.
  void reserve(std::uint64_t offset, std::uint64_t size);
  /// Truncates the file to `size` bytes. Not for slices.
  void cut(std::uint64_t size);
  /// Returns when everything written is on the disk.
  void sync();
  /// Makes the kernel drop its cached pages of the file, so that the next read
  /// measures the disk. Call it only after sync().
  void drop_cache();

 private:
  friend class IoQueue;
  AsyncFile(std::shared_ptr<detail::OpenFile> file, std::filesystem::path path);

  std::shared_ptr<detail::OpenFile> file_;
  std::shared_ptr<const std::filesystem::path> path_;
  std::uint64_t offset_ = 0;
  std::optional<std::uint64_t> size_; ///< set for a slice
};

} // namespace cairn::io
