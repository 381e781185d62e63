#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace cairn::data {

/// Size and CRC-32C of a file, with its name without folders.
struct FileChecksum {
  std::string name;
  std::uint64_t size = 0;
  std::uint32_t crc = 0;
  bool operator==(const FileChecksum&) const = default;
};

FileChecksum checksum_of(
    const std::filesystem::path& file,
    const std::function<void(std::uint64_t bytes)>& progress);

/// Writes a text file with a line `CRC SIZE NAME` for each file.
void write_checksums(
    const std::filesystem::path& file,
    const std::vector<FileChecksum>& checksums);
std::vector<FileChecksum> read_checksums(const std::filesystem::path& file);

} // namespace cairn::data
