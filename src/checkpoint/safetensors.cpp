#include <cairn/checkpoint/safetensors.h>

#include "checkpoint/little_endian.h"

#include <ATen/Functions.h>
#include <cairn/base/error.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

namespace cairn::checkpoints {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::uint64_t largest_header = 100'000'000; // the format's own limit

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

std::string_view name_of(at::ScalarType type) {
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

at::ScalarType type_of(const std::string& name) {
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

/// Bytes of the elements; nullopt if they cannot be counted.
std::optional<std::uint64_t> bytes_of(
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

[[noreturn]] void torn(const fs::path& path, std::string why) {
  throw CheckpointError(
      {.what = "not a complete safetensors file",
       .where = path.string(),
       .values = std::move(why)});
}

/// Parses, and refuses a name that is there twice: which one counts would be
/// anyone's guess.
json parse_header(std::string_view text) {
  std::vector<std::set<std::string>> keys;
  return json::parse(text, [&](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) {
      keys.emplace_back();
    } else if (event == json::parse_event_t::object_end) {
      keys.pop_back();
    } else if (
        event == json::parse_event_t::key &&
        !keys.back().insert(parsed.get<std::string>()).second) {
      throw CheckpointError(
          {.what = "a name is there twice",
           .values = parsed.get<std::string>()});
    }
    return true;
  });
}

} // namespace

SafetensorsFile::SafetensorsFile(const fs::path& path)
    : path_(path), file_(path) {
  const std::span<const std::byte> bytes = file_.bytes();
  if (bytes.size() < 8) {
    torn(path, "too short");
  }
  const auto header = little_endian<std::uint64_t>(bytes, 0);
  if (header > largest_header || header > bytes.size() - 8) {
    torn(path, fmt::format("a header of {} bytes", header));
  }
  const std::span<const std::byte> data = bytes.subspan(8 + header);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> places;
  try {
    const json entries = parse_header(std::string_view(
        reinterpret_cast<const char*>(bytes.data()) + 8,
        header));
    for (const auto& [name, entry] : entries.items()) {
      if (name == "__metadata__") {
        metadata_ = entry.get<std::map<std::string, std::string>>();
        continue;
      }
      const auto begin = entry.at("data_offsets").at(0).get<std::uint64_t>();
      const auto end = entry.at("data_offsets").at(1).get<std::uint64_t>();
      Entry added{
          .type = type_of(entry.at("dtype").get<std::string>()),
          .shape = entry.at("shape").get<std::vector<std::int64_t>>()};
      const auto wanted = bytes_of(added.shape, added.type);
      if (begin > end || end > data.size() || !wanted ||
          *wanted != end - begin) {
        torn(
            path,
            fmt::format(
                "{} has bytes {} to {} of {}",
                name,
                begin,
                end,
                data.size()));
      }
      added.bytes = data.subspan(begin, end - begin);
      places.emplace_back(begin, end);
      entries_.emplace(name, std::move(added));
    }
  } catch (const json::exception& error) {
    torn(path, error.what());
  } catch (const CheckpointError& error) {
    Problem problem = error.problem();
    problem.where = path.string();
    throw CheckpointError(std::move(problem));
  }
  std::ranges::sort(places);
  std::uint64_t expected = 0;
  for (const auto& [begin, end] : places) {
    if (begin != expected) {
      torn(path, "tensors overlap or leave gaps");
    }
    expected = end;
  }
  if (expected != data.size()) {
    torn(
        path,
        fmt::format("{} bytes of elements, not {}", data.size(), expected));
  }
}

const SafetensorsFile::Entry& SafetensorsFile::at(
    const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    throw CheckpointError(
        {.what = fmt::format("\"{}\" is missing", name),
         .where = path_.string()});
  }
  return found->second;
}

at::Tensor SafetensorsFile::tensor(const std::string& name) const {
  const Entry& entry = at(name);
  at::Tensor copy = at::empty(entry.shape, entry.type);
  if (!entry.bytes.empty()) {
    std::memcpy(copy.data_ptr(), entry.bytes.data(), entry.bytes.size());
  }
  return copy;
}

SafetensorsWriter::SafetensorsWriter(
    const fs::path& path,
    const std::vector<Entry>& entries,
    const std::map<std::string, std::string>& metadata)
    : file_(path) {
  json header = json::object();
  if (!metadata.empty()) {
    header["__metadata__"] = metadata;
  }
  for (const Entry& entry : entries) {
    const auto bytes = bytes_of(entry.shape, entry.type);
    if (!bytes || header.contains(entry.name)) {
      throw CheckpointError(
          {.what = "a tensor twice, or of impossible size",
           .where = path.string(),
           .values = entry.name});
    }
    header[entry.name] = {
        {"dtype", name_of(entry.type)},
        {"shape", entry.shape},
        {"data_offsets", {missing_, missing_ + *bytes}}};
    missing_ += *bytes;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' '); // elements start aligned
  const std::uint64_t size = text.size();
  file_.write(std::as_bytes(std::span(&size, 1)));
  file_.write(text);
}

void SafetensorsWriter::write(std::span<const std::byte> bytes) {
  if (bytes.size() > missing_) {
    throw InternalError({.what = "more elements than announced"});
  }
  file_.write(bytes);
  missing_ -= bytes.size();
}

void SafetensorsWriter::commit() {
  if (missing_ != 0) {
    throw InternalError({.what = "fewer elements than announced"});
  }
  file_.commit();
}

void write_safetensors(
    const fs::path& path,
    const std::map<std::string, at::Tensor>& tensors,
    const std::map<std::string, std::string>& metadata) {
  std::vector<SafetensorsWriter::Entry> entries;
  for (const auto& [name, tensor] : tensors) {
    entries.push_back({name, tensor.scalar_type(), tensor.sizes().vec()});
  }
  SafetensorsWriter writer(path, entries, metadata);
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor flat = tensor.detach().cpu().contiguous();
    writer.write(
        {static_cast<const std::byte*>(flat.const_data_ptr()), flat.nbytes()});
  }
  writer.commit();
}

} // namespace cairn::checkpoints
