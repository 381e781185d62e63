#include "checkpoints/internal/manifest.h"

#include "base/internal/crc32c.h"
#include "checkpoints/internal/damaged_checkpoint.h"
#include "checkpoints/internal/safetensors_header.h"
#include "checkpoints/native/box_runs.h"
#include "checkpoints/native/manifest_counts.h"
#include "checkpoints/tensors/whole_number.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <fmt/format.h>

#include <charconv>
#include <span>

namespace cairn::checkpoints {

namespace {

using nlohmann::json;

constexpr std::string_view format_name = "cairn-checkpoint";
/// The version that is written. Version 1 has no checksum over the manifest.
constexpr int format_version = 2;
constexpr int oldest_version = 1;
/// What stands between the text that a manifest's checksum covers and the
/// checksum, and behind the checksum.
constexpr std::string_view before_checksum = ",\n \"crc32c\": \"";
constexpr std::string_view after_checksum = "\"}\n";
constexpr std::uint64_t largest_manifest = std::uint64_t{1} << 30;

std::string checksums_text(const std::vector<std::uint32_t>& sums) {
  std::string text;
  for (const std::uint32_t sum : sums) {
    text += fmt::format("{:08x}", sum);
  }
  return text;
}

std::vector<std::uint32_t> parse_checksums(const std::string& text) {
  constexpr std::size_t digits = 8;
  if (text.size() % digits != 0) {
    throw CheckpointError({.what = "checksums are cut off", .values = text});
  }
  std::vector<std::uint32_t> sums;
  for (std::size_t at = 0; at < text.size(); at += digits) {
    const char* const first = text.data() + at;
    std::uint32_t sum = 0;
    const auto [end, error] = std::from_chars(first, first + digits, sum, 16);
    if (error != std::errc() || end != first + digits) {
      throw CheckpointError({.what = "not a checksum", .values = text});
    }
    sums.push_back(sum);
  }
  return sums;
}

json to_json(const StoredSlice& slice) {
  json result{
      {"file", slice.file},
      {"begin", slice.begin},
      {"end", slice.end},
      {"at", slice.at},
      {"crc32c", checksums_text(slice.crc32c)}};
  if (!slice.box.empty()) {
    result["box"] = {{"begin", slice.box.begin}, {"size", slice.box.size}};
  }
  return result;
}

StoredSlice slice_from(const json& value) {
  StoredSlice slice{
      .file = whole_number<std::size_t>(value.at("file")),
      .begin = whole_number<std::int64_t>(value.at("begin")),
      .end = whole_number<std::int64_t>(value.at("end")),
      .at = whole_number<std::uint64_t>(value.at("at")),
      .crc32c = parse_checksums(value.at("crc32c").get<std::string>())};
  if (const auto box = value.find("box"); box != value.end()) {
    slice.box.begin = whole_numbers(box->at("begin"));
    slice.box.size = whole_numbers(box->at("size"));
  }
  return slice;
}

[[noreturn]] void refuse(std::string what, std::string values = {}) {
  throw CheckpointError({.what = std::move(what), .values = std::move(values)});
}

/// Refuses a box that is no part of the tensor.
void check_box(
    const std::string& name,
    const std::vector<std::int64_t>& shape,
    const Box& box) {
  const std::size_t dimensions = shape.size();
  if (box.begin.size() != box.size.size() ||
      (!box.empty() && box.begin.size() != dimensions)) {
    refuse("a box of other dimensions than the tensor", name);
  }
  for (std::size_t d = 0; !box.empty() && d < dimensions; ++d) {
    if (box.begin[d] < 0 || box.size[d] < 0 || box.size[d] > shape[d] ||
        box.begin[d] > shape[d] - box.size[d]) {
      refuse("a box that reaches out of the tensor", name);
    }
  }
}

void check(
    const std::string& name,
    const ManifestTensor& tensor,
    const StoredSlice& slice,
    const std::vector<ManifestFile>& files) {
  check_box(name, tensor.shape, slice.box);
  const std::int64_t elements = BoxRuns(tensor.shape, slice.box).elements();
  if (slice.begin < 0 || slice.begin > slice.end || slice.end > elements) {
    refuse(
        "a slice that reaches out of the tensor",
        fmt::format("{}: {} to {}", name, slice.begin, slice.end));
  }
  if (slice.file >= files.size()) {
    refuse("a slice of a file that is not listed", name);
  }
  const std::uint64_t bytes =
      static_cast<std::uint64_t>(slice.end - slice.begin) *
      c10::elementSize(tensor.type);
  const ManifestFile& file = files[slice.file];
  if (bytes > file.bytes || slice.at > file.bytes - bytes) {
    refuse("a slice that reaches out of its file", name);
  }
  if (slice.crc32c.size() != (bytes + checksum_block - 1) / checksum_block) {
    refuse("not as many checksums as blocks", name);
  }
}

ManifestTensor tensor_from(
    const std::string& name,
    const json& value,
    const std::vector<ManifestFile>& files) {
  ManifestTensor tensor{
      .type = safetensors_type(value.at("dtype").get<std::string>()),
      .shape = whole_numbers(value.at("shape"))};
  const auto bytes = tensor_bytes(tensor.shape, tensor.type);
  if (!bytes || *bytes > std::uint64_t{1} << 62) {
    refuse("a tensor of impossible size", name);
  }
  for (const json& entry : value.at("slices")) {
    tensor.slices.push_back(slice_from(entry));
    check(name, tensor, tensor.slices.back(), files);
  }
  return tensor;
}

ManifestFile file_from(const json& value) {
  ManifestFile file{
      .name = value.at("name").get<std::string>(),
      .bytes = whole_number<std::uint64_t>(value.at("bytes"))};
  const std::filesystem::path path = file.name;
  if (file.name.empty() || path.filename() != path || file.name == "." ||
      file.name == "..") {
    refuse("a file name that leads elsewhere", file.name);
  }
  return file;
}

std::string checksum_text(std::string_view covered) {
  return fmt::format("{:08x}", crc32c(std::as_bytes(std::span(covered))));
}

/// Holds the text against the checksum at its end.
void check_checksum(std::string_view text) {
  const std::size_t end = text.rfind(before_checksum);
  if (end == std::string_view::npos) {
    refuse("the checksum over the manifest is missing");
  }
  const std::string sum = checksum_text(text.substr(0, end));
  const std::string_view stored = text.substr(end + before_checksum.size());
  if (stored != sum + std::string(after_checksum)) {
    refuse(
        "the manifest was altered: it does not have its checksum",
        fmt::format("crc32c {}", sum));
  }
}

Manifest parse_manifest(std::string_view text) {
  const json root = json::parse(text);
  if (root.at("format") != format_name) {
    refuse("not a manifest of a Cairn checkpoint");
  }
  const int version = whole_number<int>(root.at("version"));
  if (version < oldest_version || version > format_version) {
    throw CheckpointError(
        {.what = "a checkpoint of another version of the format",
         .values = fmt::format("{}, known is {}", version, format_version),
         .remedy = "load it with the Cairn that is named in \"cairn\""});
  }
  if (version > oldest_version) {
    check_checksum(text);
  }
  Manifest manifest{
      .has_checksum = version > oldest_version,
      .tag = root.at("tag").get<std::string>(),
      .step = whole_number<std::int64_t>(root.at("step")),
      .saved_at = whole_number<std::int64_t>(root.at("saved_at")),
      .state = root.at("state"),
      .config = root.at("config")};
  for (const json& file : root.at("files")) {
    manifest.files.push_back(file_from(file));
  }
  for (const auto& [name, tensor] : root.at("tensors").items()) {
    manifest.tensors.emplace(name, tensor_from(name, tensor, manifest.files));
  }
  root.at("ties").get_to(manifest.ties);
  if (std::string fault = fault_of_counts(manifest); !fault.empty()) {
    refuse("its counts contradict each other", std::move(fault));
  }
  return manifest;
}

} // namespace

void add_file(Manifest& manifest, const WrittenFile& written) {
  const std::size_t number = manifest.files.size();
  manifest.files.push_back(written.file);
  for (const WrittenFile::Slice& slice : written.slices) {
    ManifestTensor& tensor = manifest.tensors[slice.name];
    if (tensor.slices.empty()) {
      tensor.type = slice.type;
      tensor.shape = slice.shape;
    } else if (tensor.type != slice.type || tensor.shape != slice.shape) {
      throw CheckpointError(
          {.what = "ranks disagree about a tensor's type or shape",
           .where = slice.name});
    }
    tensor.slices.push_back(slice.stored);
    tensor.slices.back().file = number;
  }
}

/// The manifest with one line per tensor, for people and for diff.
std::string to_text(const Manifest& manifest) {
  std::string text = fmt::format(
      "{{\"format\": \"{}\", \"version\": {}, \"cairn\": \"{}\",\n"
      " \"tag\": {}, \"step\": {}, \"saved_at\": {},\n \"files\": [",
      format_name,
      format_version,
      CAIRN_VERSION,
      json(manifest.tag).dump(),
      manifest.step,
      manifest.saved_at);
  const char* separator = "\n  ";
  for (const ManifestFile& file : manifest.files) {
    text += separator;
    text += json{{"name", file.name}, {"bytes", file.bytes}}.dump();
    separator = ",\n  ";
  }
  text += "],\n \"tensors\": {";
  separator = "\n  ";
  for (const auto& [name, tensor] : manifest.tensors) {
    json slices = json::array();
    for (const StoredSlice& slice : tensor.slices) {
      slices.push_back(to_json(slice));
    }
    text += separator;
    text += json(name).dump() + ": " +
        json{
            {"dtype", safetensors_name(tensor.type)},
            {"shape", tensor.shape},
            {"slices", std::move(slices)}}
            .dump();
    separator = ",\n  ";
  }
  text += fmt::format(
      "}},\n \"ties\": {},\n \"state\": {},\n \"config\": {}",
      json(manifest.ties).dump(),
      manifest.state.dump(),
      manifest.config.dump());
  const std::string sum = checksum_text(text);
  return text.append(before_checksum).append(sum).append(after_checksum);
}

std::string to_text(const WrittenFile& written) {
  json slices = json::array();
  for (const WrittenFile::Slice& slice : written.slices) {
    json entry = to_json(slice.stored);
    entry["name"] = slice.name;
    entry["dtype"] = safetensors_name(slice.type);
    entry["shape"] = slice.shape;
    slices.push_back(std::move(entry));
  }
  return json{
      {"name", written.file.name},
      {"bytes", written.file.bytes},
      {"slices", std::move(slices)}}
      .dump();
}

WrittenFile parse_written_file(std::string_view text) {
  const json root = json::parse(text);
  WrittenFile written{.file = file_from(root)};
  for (const json& entry : root.at("slices")) {
    written.slices.push_back(
        {.name = entry.at("name").get<std::string>(),
         .type = safetensors_type(entry.at("dtype").get<std::string>()),
         .shape = whole_numbers(entry.at("shape")),
         .stored = slice_from(entry)});
  }
  return written;
}

namespace {

/// Runs `read` and turns its errors into a DamagedCheckpoint that names the
/// manifest.
template <typename Read>
auto reading_manifest(const std::filesystem::path& folder, Read read) {
  const std::filesystem::path path = folder / manifest_name;
  try {
    return read(path);
  } catch (const json::exception& error) {
    throw DamagedCheckpoint(
        {.what = "the manifest is damaged",
         .where = path.string(),
         .values = error.what()});
  } catch (const Error& error) { // from the manifest, or from reading the file
    Problem problem = error.problem();
    if (problem.where.empty()) {
      problem.where = path.string();
    }
    throw DamagedCheckpoint(std::move(problem));
  }
}

} // namespace

std::string read_manifest_text(const std::filesystem::path& folder) {
  return reading_manifest(folder, [](const std::filesystem::path& path) {
    return read_file(path, largest_manifest);
  });
}

Manifest manifest_from_text(
    std::string_view text,
    const std::filesystem::path& folder) {
  return reading_manifest(folder, [&](const std::filesystem::path&) {
    return parse_manifest(text);
  });
}

Manifest read_manifest(const std::filesystem::path& folder) {
  return manifest_from_text(read_manifest_text(folder), folder);
}

void check_files(
    const Manifest& manifest,
    const std::filesystem::path& folder) {
  for (const ManifestFile& file : manifest.files) {
    const std::filesystem::path path = folder / file.name;
    std::error_code error;
    const std::uintmax_t bytes = std::filesystem::file_size(path, error);
    if (error) {
      throw DamagedCheckpoint(
          {.what = "a file of the checkpoint cannot be read",
           .where = path.string(),
           .values = error.message()});
    }
    check_size(file, bytes, folder);
  }
}

void check_size(
    const ManifestFile& file,
    std::uint64_t bytes,
    const std::filesystem::path& folder) {
  if (bytes != file.bytes) {
    throw DamagedCheckpoint(
        {.what = "the file is cut off or was replaced",
         .where = (folder / file.name).string(),
         .values =
             fmt::format("{} bytes, {} were written", bytes, file.bytes)});
  }
}

} // namespace cairn::checkpoints
