#include "base/internal/crc32c.h"

#include "base/crc32c_kernel.h"
#include "base/crc32c_polynomial.h"
#include "base/internal/cpu.h"

namespace cairn::inline base {
namespace {

struct Crc32cKernels {
  decltype(&crc32c_detail::sliced) sum = crc32c_detail::sliced;
  decltype(&crc32c_detail::sliced_copy) copy = crc32c_detail::sliced_copy;
};

Crc32cKernels fastest_crc32c() {
  const CpuFeatures features = CpuFeatures::detect();
  if (!features.crc32c) {
    return {};
  }
#if defined(__aarch64__)
  if (features.pmull) {
    return {crc32c_detail::folded, crc32c_detail::folded_copy};
  }
#endif
  return {crc32c_detail::hardware, crc32c_detail::hardware_copy};
}

const Crc32cKernels& crc32c_kernels() {
  static const Crc32cKernels kernels = fastest_crc32c();
  return kernels;
}

} // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
  return ~crc32c_kernels().sum(~before, bytes.data(), bytes.size());
}

std::uint32_t crc32c_copy(
    std::byte* to,
    std::span<const std::byte> from,
    std::uint32_t before) {
  return ~crc32c_kernels().copy(~before, to, from.data(), from.size());
}

std::uint32_t crc32c_combine(
    std::uint32_t first,
    std::uint32_t second,
    std::uint64_t second_size) {
  return crc32c_detail::times(crc32c_detail::zero_bytes(second_size), first) ^
      second;
}

} // namespace cairn::base
