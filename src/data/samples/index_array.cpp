#include <cairn/data/index_array.h>

#include "base/internal/crc32c.h"

#include <array>
#include <bit>

namespace cairn::data {

static_assert(
    std::endian::native == std::endian::little,
    "index files are little endian and are used in place");

std::size_t size_of(IndexType type) {
  constexpr std::array<std::size_t, 5> sizes{2, 4, 4, 8, 8};
  return sizes[static_cast<std::size_t>(type)];
}

std::uint32_t IndexArray::checksum() const {
  std::vector<std::uint64_t> head{static_cast<std::uint64_t>(type_)};
  head.insert(head.end(), shape_.begin(), shape_.end());
  return crc32c(bytes_, crc32c(std::as_bytes(std::span(head))));
}

} // namespace cairn::data
