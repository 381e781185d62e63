#pragma once

#include <cairn/data/index_array.h>

#include <cstddef>
#include <filesystem>
#include <string>

namespace cairn::data {

/// Maps an array that numpy.save wrote. Takes only the integers of IndexType,
/// little endian, in row-major order. Throws DataError for anything else and
/// for a torn or hostile file.
IndexArray load_npy(const std::filesystem::path& path);

/// Writes the array byte for byte as numpy.save does; the file appears as a
/// whole or not at all.
void save_npy(const std::filesystem::path& path, const IndexArray& array);

} // namespace cairn::data
