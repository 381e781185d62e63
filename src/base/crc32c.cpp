#include <cairn/base/crc32c.h>

#include <cairn/base/cpu.h>

#include "base/crc32c_kernel.h"
#include "base/crc32c_polynomial.h"

namespace cairn {

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
  static const auto kernel = CpuFeatures::detect().crc32c
      ? crc32c_detail::hardware
      : crc32c_detail::sliced;
  return ~kernel(~before, bytes.data(), bytes.size());
}

std::uint32_t crc32c_copy(
    std::byte* to,
    std::span<const std::byte> from,
    std::uint32_t before) {
  static const auto kernel = CpuFeatures::detect().crc32c
      ? crc32c_detail::hardware_copy
      : crc32c_detail::sliced_copy;
  return ~kernel(~before, to, from.data(), from.size());
}

std::uint32_t crc32c_combine(
    std::uint32_t first,
    std::uint32_t second,
    std::uint64_t second_size) {
  return crc32c_detail::times(crc32c_detail::zero_bytes(second_size), first) ^
      second;
}

} // namespace cairn
