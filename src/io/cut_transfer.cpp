#include "io/cut_transfer.h"

#include <cairn/io/aligned_buffer.h>

#include <algorithm>

namespace cairn::io::detail {

std::vector<Piece> cut_transfer(
    std::uintptr_t address,
    std::uint64_t offset,
    std::size_t size,
    std::size_t block) {
  constexpr std::size_t unit = direct_alignment;
  const bool can_align = address % unit == offset % unit;
  std::vector<Piece> pieces;
  pieces.reserve(size / block + 3);
  for (std::size_t at = 0; at < size;) {
    std::size_t length = std::min(block, size - at);
    if (can_align) {
      const std::size_t over = (offset + at) % unit;
      if (over != 0) {
        length = std::min(length, unit - over);
      } else if (length > unit) {
        length -= length % unit;
      }
    }
    pieces.push_back({at, length});
    at += length;
  }
  return pieces;
}

} // namespace cairn::io::detail
