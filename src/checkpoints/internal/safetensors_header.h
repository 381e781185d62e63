#pragma once

#include <cairn/checkpoints/safetensors.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::checkpoints {

/// Name of a type, such as "F32". Throws CheckpointError for a type that
/// safetensors does not have.
std::string_view safetensors_name(at::ScalarType type);
at::ScalarType safetensors_type(const std::string& name);

/// Size of the elements in bytes; nullopt if the number overflows.
std::optional<std::uint64_t> tensor_bytes(
    const std::vector<std::int64_t>& shape,
    at::ScalarType type);

/// Beginning of a file, and the number of element bytes that follow.
struct SafetensorsHeader {
  std::string bytes; ///< their number is a multiple of the alignment
  std::uint64_t elements_bytes = 0;
};

/// Makes the header. `where` is for the message of a CheckpointError.
SafetensorsHeader safetensors_header(
    const std::vector<SafetensorsWriter::Entry>& entries,
    const std::map<std::string, std::string>& metadata,
    const std::filesystem::path& where,
    std::size_t alignment = 8);

} // namespace cairn::checkpoints
