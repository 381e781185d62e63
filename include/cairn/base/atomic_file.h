#pragma once

#include <cairn/base/unique_fd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline base {

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
