#pragma once

#include <cairn/base/mapped_file.h>
#include <cairn/base/unique_fd.h>
#include <cairn/io/aligned_buffer.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace cairn::checkpoints {

/// A file of a checkpoint, to be read in two ways: as memory, through the
/// kernel's page cache, or straight from the disk. The second is faster for
/// what is not in the cache, and leaves no trace there.
class StoredFile {
 public:
  explicit StoredFile(const std::filesystem::path& path);

  std::uint64_t size() const { return mapped_.bytes().size(); }

  /// Whether read() can do what it is for.
  bool has_direct() const { return static_cast<bool>(direct_); }

  /// Whether the page cache has the byte there, as far as the kernel tells.
  bool in_cache(std::uint64_t at) const;

  std::span<const std::byte> mapped(std::uint64_t at, std::size_t size) const;

  /// Memory that read() needs for so many bytes.
  static constexpr std::size_t room_for(std::size_t size) {
    return io::round_up_to_alignment(size) + io::direct_alignment;
  }
  /// From the disk into `room`, which is aligned; mapped() where the file
  /// system has no such access. Throws DamagedCheckpoint.
  std::span<const std::byte> read(
      std::uint64_t at,
      std::size_t size,
      std::span<std::byte> room) const;

 private:
  std::filesystem::path path_;
  MappedFile mapped_;
  UniqueFd direct_; ///< none where the file system refuses
};

} // namespace cairn::checkpoints
