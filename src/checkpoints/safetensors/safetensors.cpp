#include <cairn/checkpoints/safetensors.h>

#include "checkpoints/internal/safetensors_header.h"
#include "checkpoints/pickle/python_node.h"
#include "checkpoints/tensors/little_endian.h"
#include "checkpoints/tensors/tensor_bytes.h"
#include "checkpoints/tensors/whole_number.h"

#include <ATen/Functions.h>
#include <c10/util/strides.h>
#include <cairn/base/error.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <unordered_set>
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

/// Looks for a name that occurs twice in an object: nobody could tell which one
/// counts. (json::parse() with a callback could do so while it parses, but
/// walks over an object's members after each of them.)
class RepeatedNames final : public nlohmann::json_sax<json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool start_object(std::size_t) override {
    names_.emplace_back();
    return true;
  }
  bool end_object() override {
    names_.pop_back();
    return true;
  }
  bool key(string_t& name) override {
    if (!names_.back().insert(name).second) {
      throw CheckpointError({.what = "a name is there twice", .values = name});
    }
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const json::exception&)
      override {
    return false; // json::parse() says more
  }

 private:
  std::vector<std::unordered_set<std::string>> names_;
};

json parse_header(std::string_view text) {
  RepeatedNames repeated;
  static_cast<void>(json::sax_parse(text, &repeated));
  return json::parse(text);
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
      const auto begin =
          whole_number<std::uint64_t>(entry.at("data_offsets").at(0));
      const auto end =
          whole_number<std::uint64_t>(entry.at("data_offsets").at(1));
      Entry added{
          .type = safetensors_type(entry.at("dtype").get<std::string>()),
          .shape = whole_numbers(entry.at("shape"))};
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
