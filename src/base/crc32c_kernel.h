#pragma once

#include <cstddef>
#include <cstdint>

namespace cairn::inline base::crc32c_detail {

// All these functions take and return the CRC register, which is the complement
// of a checksum.

/// Slicing by eight: plain C++, for CPUs without the instruction.
std::uint32_t sliced(
    std::uint32_t state,
    const std::byte* bytes,
    std::size_t size);
std::uint32_t sliced_copy(
    std::uint32_t state,
    std::byte* to,
    const std::byte* from,
    std::size_t size);

/// Uses the instruction of SSE 4.2 or ARMv8; only where CpuFeatures has crc32c.
std::uint32_t hardware(
    std::uint32_t state,
    const std::byte* bytes,
    std::size_t size);
std::uint32_t hardware_copy(
    std::uint32_t state,
    std::byte* to,
    const std::byte* from,
    std::size_t size);

#if defined(__aarch64__)
/// Uses carry-less multiplications: 16 bytes a cycle, where the CRC instruction
/// takes 8. Only where CpuFeatures has crc32c and pmull. (Intel's multiplier is
/// no faster than its CRC unit.)
std::uint32_t folded(
    std::uint32_t state,
    const std::byte* bytes,
    std::size_t size);
std::uint32_t folded_copy(
    std::uint32_t state,
    std::byte* to,
    const std::byte* from,
    std::size_t size);
#endif

} // namespace cairn::base::crc32c_detail
