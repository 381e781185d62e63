#include "checkpoints/internal/safetensors_header.h"

#include <cairn/base/error.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace cairn::checkpoints {

namespace {

using nlohmann::json;

constexpr std::array<std::pair<std::string_view, at::ScalarType>, 17> types{{
    {"F64", at::kDouble},
    {"F32", at::kFloat},
    {"F16", at::kHalf},
    {"BF16", at::kBFloat16},
    {"I64", at::kLong},
    {"I32", at::kInt},
    {"I16", at::kShort},
    {"I8", at::kChar},
    {"U8", at::kByte},
    {"BOOL", at::kBool},
    {"F8_E4M3", at::kFloat8_e4m3fn},
    {"F8_E5M2", at::kFloat8_e5m2},
    {"U16", at::kUInt16},
    {"U32", at::kUInt32},
    {"U64", at::kUInt64},
    {"C64", at::kComplexFloat},
    {"F8_E8M0", at::kFloat8_e8m0fnu},
}};

} // namespace

std::string_view safetensors_name(at::ScalarType type) {
  const auto found = std::ranges::find(
      types,
      type,
      &std::pair<std::string_view, at::ScalarType>::second);
  if (found == types.end()) {
    throw CheckpointError(
        {.what = "safetensors has no such type",
         .values = c10::toString(type)});
  }
  return found->first;
}

at::ScalarType safetensors_type(const std::string& name) {
  const auto found = std::ranges::find(
      types,
      name,
      &std::pair<std::string_view, at::ScalarType>::first);
  if (found == types.end()) {
    throw CheckpointError(
        {.what = "a type that is not supported", .values = name});
  }
  return found->second;
}

std::optional<std::uint64_t> tensor_bytes(
    const std::vector<std::int64_t>& shape,
    at::ScalarType type) {
  std::uint64_t bytes = c10::elementSize(type);
  for (const std::int64_t size : shape) {
    if (size < 0 ||
        __builtin_mul_overflow(
            bytes,
            static_cast<std::uint64_t>(size),
            &bytes)) {
      return std::nullopt;
    }
  }
  return bytes;
}

SafetensorsHeader safetensors_header(
    const std::vector<SafetensorsWriter::Entry>& entries,
    const std::map<std::string, std::string>& metadata,
    const std::filesystem::path& where,
    std::size_t alignment) {
  json header = json::object();
  if (!metadata.empty()) {
    header["__metadata__"] = metadata;
  }
  SafetensorsHeader result;
  for (const SafetensorsWriter::Entry& entry : entries) {
    const auto bytes = tensor_bytes(entry.shape, entry.type);
    if (!bytes || header.contains(entry.name)) {
      throw CheckpointError(
          {.what = "a tensor twice, or of impossible size",
           .where = where.string(),
           .values = entry.name});
    }
    const std::uint64_t begin = result.elements_bytes;
    result.elements_bytes += *bytes;
    header[entry.name] = {
        {"dtype", safetensors_name(entry.type)},
        {"shape", entry.shape},
        {"data_offsets", {begin, result.elements_bytes}}};
  }
  std::string text = header.dump();
  const std::size_t unpadded = sizeof(std::uint64_t) + text.size();
  text.append((alignment - unpadded % alignment) % alignment, ' ');
  const std::uint64_t size = text.size();
  result.bytes.resize(sizeof size);
  std::memcpy(result.bytes.data(), &size, sizeof size);
  result.bytes += text;
  return result;
}

} // namespace cairn::checkpoints
