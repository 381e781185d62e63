#pragma once

#include <cairn/base/unique_fd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

/// Replaces a file as a whole or not at all: whoever opens the path sees the
/// old content or the new, also after a crash or a power cut.
///
///   AtomicFile file("run/latest.json");
///   file.write(text);
///   file.commit();
///
/// It writes to a temporary in the same folder, which gets a name at commit(),
/// so that a process that is killed leaves nothing behind. (Where the file
/// system has no files without a name, the temporary has one from the start,
/// and only the destructor removes it.) A symbolic link is followed, and an
/// existing file's permissions are kept. What cannot be done (full disk, no
/// permission, no such folder) is a DataError, after which the object can only
/// be destroyed and the old file is as it was.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);

  /// Bytes taken so far.
  std::uint64_t size() const noexcept { return size_; }

  /// Makes the content durable and visible: file to disk, rename, folder to
  /// disk. An error after the rename (only the folder's fsync can give one)
  /// leaves the new content in place, not yet known to be durable.
  void commit();

 private:
  void require_open() const;
  void flush();
  void discard() noexcept;

  std::filesystem::path path_;
  std::string name_;
  std::string temporary_name_; ///< empty once there is no temporary to remove
  UniqueFd folder_; ///< held, so that a folder moved meanwhile is still right
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

} // namespace cairn
