#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <span>

namespace cairn::checkpoints {

static_assert(std::endian::native == std::endian::little);

/// The number at an offset, which the caller has checked.
template <typename Number>
Number little_endian(std::span<const std::byte> bytes, std::size_t offset) {
  Number value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

} // namespace cairn::checkpoints
