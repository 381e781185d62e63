#pragma once

#include <cairn/data/indexed_dataset.h>

#include <array>
#include <bit>
#include <cstdint>
#include <string_view>

namespace cairn::data {

// Both formats are little endian; they are read and written in place.
static_assert(std::endian::native == std::endian::little);

inline constexpr std::string_view mmap_magic{"MMIDIDX\0\0", 9};
inline constexpr std::string_view classic_magic{"TNTIDX\0\0", 8};
inline constexpr std::uint64_t index_version = 1;

// Header sizes: the bytes before the first array.
inline constexpr std::size_t mmap_header_size = 9 + 8 + 1 + 8 + 8;
inline constexpr std::size_t classic_header_size = 8 + 6 * 8;

} // namespace cairn::data
