#pragma once

#include <cairn/base/file.h>
#include <cairn/base/mapped_file.h>
#include <cairn/io/aligned_buffer.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace cairn::checkpoints {

/// A file of a checkpoint that can be read in two ways: as memory, through the
/// kernel's page cache, or directly from the disk. The second way is faster for
/// data that is not in the cache, and does not put it there.
class StoredFile {
 public:
  explicit StoredFile(const std::filesystem::path& path);

  std::uint64_t size() const { return mapped_.bytes().size(); }

  /// True when read() can read directly from the disk.
  bool has_direct() const { return static_cast<bool>(direct_); }

  /// True when the page cache has the byte at `at`, as far as the kernel tells.
  bool in_cache(std::uint64_t at) const;

  std::span<const std::byte> mapped(std::uint64_t at, std::size_t size) const;

  /// Bytes of memory that read() needs for `size` bytes.
  static constexpr std::size_t room_for(std::size_t size) {
    return io::round_up_to_alignment(size) + io::direct_alignment;
  }
  /// Reads from the disk into `room`, which is aligned; returns mapped() where
  /// the file system has no direct access. Throws DamagedCheckpoint.
  std::span<const std::byte> read(
      std::uint64_t at,
      std::size_t size,
      std::span<std::byte> room) const;

 private:
  std::filesystem::path path_;
  MappedFile mapped_;
  UniqueFd direct_; ///< unset where the file system refuses
};

} // namespace cairn::checkpoints
