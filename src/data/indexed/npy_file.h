#pragma once

#include "data/internal/checksum_list.h"

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

/// The checksum of the file that save_npy() writes, from the array itself.
FileChecksum checksum_of_npy(const std::string& name, const IndexArray& array);

} // namespace cairn::data
