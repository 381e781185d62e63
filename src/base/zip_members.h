#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace cairn {

/// What a ZIP archive's directory says of a member, and where it lies.
struct ZipMember {
  std::string name; ///< as it is there: it may lead anywhere
  std::uint16_t flags = 0;
  std::uint16_t method = 0; ///< 0: stored, 8: deflated
  std::uint32_t crc = 0;
  std::uint64_t size = 0;            ///< unpacked
  std::uint64_t header_at = 0;       ///< in the file
  std::span<const std::byte> packed; ///< a part of the file
  bool link = false;

  bool encrypted() const { return (flags & 1) != 0; }
};

/// Whether bytes start as a ZIP does, also an empty one.
bool begins_as_zip(std::span<const std::byte> bytes);

/// The members of an archive, also beyond 4 GB. Where the bytes are none, or a
/// broken one, calls `broken` with the place; that must throw.
std::vector<ZipMember> zip_members(
    std::span<const std::byte> bytes,
    const std::function<void(std::uint64_t at)>& broken);

} // namespace cairn
