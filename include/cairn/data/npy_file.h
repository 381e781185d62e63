#pragma once

#include <cairn/data/index_array.h>

#include <cstddef>
#include <filesystem>
#include <string>

namespace cairn::data {

/// An array that numpy.save wrote, mapped. Only the whole numbers of IndexType,
/// little endian, rows first. Anything else, a torn or a hostile file is a
/// DataError.
IndexArray load_npy(const std::filesystem::path& path);

/// Writes what numpy.save writes, byte for byte, as a whole or not at all.
void save_npy(const std::filesystem::path& path, const IndexArray& array);

} // namespace cairn::data
