#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace cairn::inline base {

/// CRC-32C (Castagnoli, as in iSCSI, ext4, TFRecord), computed with the CPU's
/// own instruction where it has one. To sum data in pieces, pass the checksum
/// of the preceding bytes as `before`.
std::uint32_t crc32c(
    std::span<const std::byte> bytes,
    std::uint32_t before = 0);

/// Copies `from` to `to` (they must not overlap) and sums the bytes on the way,
/// which makes the copy nearly free.
std::uint32_t crc32c_copy(
    std::byte* to,
    std::span<const std::byte> from,
    std::uint32_t before = 0);

/// The checksum of two adjacent stretches, from the checksum of each. Lets
/// threads sum parts of a file at the same time.
std::uint32_t crc32c_combine(
    std::uint32_t first,
    std::uint32_t second,
    std::uint64_t second_size);

} // namespace cairn::base
