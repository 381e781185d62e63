#include "base/crc32c_kernel.h"
#include "base/crc32c_polynomial.h"

#include <array>
#include <bit>
#include <cstring>

namespace cairn::inline base::crc32c_detail {
namespace {

static_assert(std::endian::native == std::endian::little);

using SlicingTable = std::array<std::array<std::uint32_t, 256>, 8>;

/// Fills slices[k][b], the state after byte b and k zero bytes.
constexpr SlicingTable slicing_table() {
  SlicingTable table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t state = byte;
    for (int bit = 0; bit < 8; ++bit) {
      state = times_x(state);
    }
    table[0][byte] = state;
  }
  for (std::size_t k = 1; k < table.size(); ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t shorter = table[k - 1][byte];
      table[k][byte] = (shorter >> 8) ^ table[0][shorter & 0xff];
    }
  }
  return table;
}

constexpr SlicingTable slices = slicing_table();

} // namespace

std::uint32_t sliced(
    std::uint32_t state,
    const std::byte* bytes,
    std::size_t size) {
  for (; size >= 8; bytes += 8, size -= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes, sizeof word);
    word ^= state;
    state = 0;
    for (std::size_t k = 0; k < 8; ++k) {
      state ^= slices[7 - k][(word >> (8 * k)) & 0xff];
    }
  }
  for (; size > 0; ++bytes, --size) {
    const std::uint32_t low =
        (state ^ static_cast<std::uint32_t>(*bytes)) & 0xff;
    state = (state >> 8) ^ slices[0][low];
  }
  return state;
}

std::uint32_t sliced_copy(
    std::uint32_t state,
    std::byte* to,
    const std::byte* from,
    std::size_t size) {
  if (size > 0) {
    std::memcpy(to, from, size);
  }
  return sliced(state, from, size);
}

} // namespace cairn::base::crc32c_detail
