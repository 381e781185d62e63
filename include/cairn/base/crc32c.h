#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace cairn {

/// CRC-32C (Castagnoli, as in iSCSI, ext4, TFRecord), with the CPU's own
/// instruction where it has one. `before` is the checksum of the bytes that
/// came before, so that data may be summed in pieces.
std::uint32_t crc32c(
    std::span<const std::byte> bytes,
    std::uint32_t before = 0);

/// Copies `from` to `to`, which is somewhere else, and sums it on the way: the
/// copy is nearly free then.
std::uint32_t crc32c_copy(
    std::byte* to,
    std::span<const std::byte> from,
    std::uint32_t before = 0);

/// The checksum of two stretches, one after the other, from the checksum of
/// each: lets threads sum parts of a file at the same time.
std::uint32_t crc32c_combine(
    std::uint32_t first,
    std::uint32_t second,
    std::uint64_t second_size);

} // namespace cairn
