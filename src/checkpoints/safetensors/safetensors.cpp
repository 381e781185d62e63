#include <cairn/checkpoints/safetensors.h>

#include "checkpoints/internal/safetensors_header.h"
#include "checkpoints/pickle/python_node.h"
#include "checkpoints/tensors/little_endian.h"
#include "checkpoints/tensors/tensor_bytes.h"

#include <ATen/Functions.h>
#include <c10/util/strides.h>
#include <cairn/base/error.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>
#include <utility>

namespace cairn::checkpoints {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::uint64_t largest_header = 100'000'000; // the format's own limit

[[noreturn]] void torn(const fs::path& path, std::string why) {
  throw CheckpointError(
      {.what = "not a complete safetensors file",
       .where = path.string(),
       .values = std::move(why)});
}

/// Parses the header. Refuses a name that occurs twice: nobody could tell which
/// one counts.
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
          .type = safetensors_type(entry.at("dtype").get<std::string>()),
          .shape = entry.at("shape").get<std::vector<std::int64_t>>()};
      const auto wanted = tensor_bytes(added.shape, added.type);
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
      added.at = 8 + header + begin;
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

LazyTensor lazy_tensor(
    const std::shared_ptr<const SafetensorsFile>& file,
    const std::string& name) {
  const SafetensorsFile::Entry& entry = file->at(name);
  TensorBytes bytes;
  bytes.place.type = entry.type;
  bytes.place.sizes = entry.shape;
  const auto strides = c10::contiguous_strides(entry.shape);
  bytes.place.strides.assign(strides.begin(), strides.end());
  bytes.storage = entry.bytes;
  bytes.owner = file;
  return {entry.type, entry.shape, [bytes] { return borrowed(bytes); }};
}

SafetensorsWriter::SafetensorsWriter(
    const fs::path& path,
    const std::vector<Entry>& entries,
    const std::map<std::string, std::string>& metadata)
    : file_(path) {
  const SafetensorsHeader header = safetensors_header(entries, metadata, path);
  missing_ = header.elements_bytes;
  file_.write(header.bytes);
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
