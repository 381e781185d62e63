#pragma once

#include <cairn/data/index_array.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::data {

struct NpyHeader {
  IndexType type = IndexType::int64;
  std::vector<std::size_t> shape{};
  std::size_t data_offset = 0; ///< in the file
};

/// Parses the first bytes of a file. `where` is for the message of the
/// DataError.
NpyHeader parse_npy_header(
    std::span<const std::byte> bytes,
    const std::string& where);

/// All bytes of a file before the data.
std::string npy_header_text(
    IndexType type,
    const std::vector<std::size_t>& shape);

} // namespace cairn::data
