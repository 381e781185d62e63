#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace cairn::inline base {

/// A member's entry in the directory of a ZIP archive, and its packed bytes.
struct ZipMember {
  std::string name; ///< not checked: the path may lead anywhere
  std::uint16_t flags = 0;
  std::uint16_t method = 0; ///< 0: stored, 8: deflated
  std::uint32_t crc = 0;
  std::uint64_t size = 0;            ///< of the unpacked member
  std::uint64_t header_at = 0;       ///< offset in the file
  std::span<const std::byte> packed; ///< points into the file
  bool link = false;

  bool encrypted() const { return (flags & 1) != 0; }
};

/// True when the bytes start as a ZIP archive does, including an empty one.
bool begins_as_zip(std::span<const std::byte> bytes);

/// The members of an archive; archives beyond 4 GB are read too. If the bytes
/// are no ZIP archive or a broken one, calls `broken` with the offset; `broken`
/// must throw.
std::vector<ZipMember> zip_members(
    std::span<const std::byte> bytes,
    const std::function<void(std::uint64_t at)>& broken);

} // namespace cairn::base
