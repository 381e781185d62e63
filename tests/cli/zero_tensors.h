#pragma once

#include "support/temporary_folder.h"

#include <cstdint>
#include <filesystem>
#include <string>

namespace cairn::testing {

/// A safetensors file of 8 GB of zeros that takes no room on the disk, so that
/// a reader is busy for a while.
inline std::filesystem::path write_zero_tensors(const TemporaryFolder& folder) {
  constexpr std::uint64_t each = std::uint64_t{64} << 20;
  constexpr int count = 128;
  std::string header = "{";
  for (int i = 0; i < count; ++i) {
    header += (i > 0 ? ",\"w" : "\"w") + std::to_string(i) +
        R"(":{"dtype":"F32","shape":[)" + std::to_string(each / 4) +
        R"(],"data_offsets":[)" + std::to_string(i * each) + "," +
        std::to_string((i + 1) * each) + "]}";
  }
  header += "}";
  std::string length(8, '\0');
  for (std::size_t i = 0; i < length.size(); ++i) {
    length[i] = static_cast<char>(header.size() >> (8 * i) & 0xff);
  }
  const std::filesystem::path path =
      folder.write("zeros.safetensors", length + header);
  std::filesystem::resize_file(
      path,
      length.size() + header.size() + count * each);
  return path;
}

} // namespace cairn::testing
