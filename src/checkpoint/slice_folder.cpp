#include <ATen/Functions.h>
#include <cairn/base/atomic_file.h>
#include <cairn/base/crc32c.h>
#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <cairn/checkpoint/slice_folder.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

namespace cairn::checkpoints {

namespace {

using nlohmann::json;

constexpr std::uint64_t largest_list = std::uint64_t{1} << 30;

std::filesystem::path part(
    const std::filesystem::path& folder,
    int rank,
    std::string_view ending) {
  return folder / fmt::format("slices-{:05}.{}", rank, ending);
}

const std::map<std::string, at::ScalarType>& types() {
  static const std::map<std::string, at::ScalarType> all{
      {"F32", at::kFloat},
      {"F16", at::kHalf},
      {"BF16", at::kBFloat16},
      {"F64", at::kDouble},
      {"I64", at::kLong},
      {"I32", at::kInt},
      {"U8", at::kByte},
      {"BOOL", at::kBool}};
  return all;
}

std::string name_of(at::ScalarType type) {
  for (const auto& [name, value] : types()) {
    if (value == type) {
      return name;
    }
  }
  throw CheckpointError(
      {.what = "a type that cannot be saved", .values = c10::toString(type)});
}

std::span<const std::byte> bytes_of(const at::Tensor& values) {
  return {
      static_cast<const std::byte*>(values.const_data_ptr()),
      values.nbytes()};
}

} // namespace

struct SliceFolderSink::Writer {
  Writer(const std::filesystem::path& folder, int rank)
      : values(part(folder, rank, "bin")), list(part(folder, rank, "json")) {}

  AtomicFile values;
  AtomicFile list;
  json slices = json::array();
};

SliceFolderSink::SliceFolderSink(const std::filesystem::path& folder, int rank)
    : writer_(std::make_unique<Writer>(folder, rank)) {}

SliceFolderSink::~SliceFolderSink() = default;

void SliceFolderSink::put(const TensorSlice& slice) {
  const at::Tensor values = slice.values.cpu().contiguous();
  const auto bytes = bytes_of(values);
  writer_->slices.push_back(
      {{"name", slice.name},
       {"shape", slice.shape},
       {"dtype", name_of(values.scalar_type())},
       {"begin", slice.begin},
       {"end", slice.begin + values.numel()},
       {"offset", writer_->values.size()},
       {"crc32c", crc32c(bytes)}});
  writer_->values.write(bytes);
}

void SliceFolderSink::commit() {
  writer_->values.commit();
  writer_->list.write(writer_->slices.dump(1));
  writer_->list.commit();
}

SliceFolderSource::SliceFolderSource(
    const std::filesystem::path& folder,
    int writers) {
  for (int rank = 0; rank < writers; ++rank) {
    try {
      files_.emplace_back(part(folder, rank, "bin"));
      add(part(folder, rank, "json"), files_.size() - 1);
    } catch (const json::exception& error) {
      throw CheckpointError(
          {.what = "not a list of slices",
           .where = part(folder, rank, "json").string(),
           .values = error.what()});
    } catch (const DataError& error) {
      throw CheckpointError(
          {.what = "cannot be read",
           .where = folder.string(),
           .values = error.what()});
    }
  }
  for (auto& [name, entry] : entries_) {
    std::ranges::sort(entry.pieces, {}, &Piece::begin);
  }
}

void SliceFolderSource::add(
    const std::filesystem::path& list,
    std::size_t file) {
  const auto bytes = files_[file].bytes();
  for (const json& item : json::parse(read_file(list, largest_list))) {
    const std::string name = item.at("name");
    const auto type = types().find(item.at("dtype"));
    const auto refuse = [&](const char* what) {
      throw CheckpointError(
          {.what = what, .where = list.string(), .values = name});
    };
    if (type == types().end()) {
      refuse("unknown dtype");
    }
    Entry fresh{
        .shape = item.at("shape").get<std::vector<std::int64_t>>(),
        .type = type->second};
    const Entry& entry = entries_.try_emplace(name, fresh).first->second;
    if (entry.shape != fresh.shape || entry.type != fresh.type) {
      refuse("slices of one tensor contradict each other");
    }
    const Piece piece{
        .begin = item.at("begin"),
        .end = item.at("end"),
        .file = file,
        .offset = item.at("offset")};
    const std::uint64_t size = c10::elementSize(entry.type);
    if (piece.begin < 0 || piece.end < piece.begin ||
        piece.offset > bytes.size() ||
        static_cast<std::uint64_t>(piece.end - piece.begin) >
            (bytes.size() - piece.offset) / size) {
      refuse("a slice reaches past the end of its file");
    }
    const auto content = bytes.subspan(
        piece.offset,
        static_cast<std::uint64_t>(piece.end - piece.begin) * size);
    if (crc32c(content) != item.at("crc32c").get<std::uint32_t>()) {
      refuse("the checksum of a slice is wrong: the file is damaged");
    }
    entries_[name].pieces.push_back(piece);
  }
}

bool SliceFolderSource::contains(const std::string& name) const {
  return entries_.contains(name);
}

std::vector<std::int64_t> SliceFolderSource::shape(
    const std::string& name) const {
  return entries_.at(name).shape;
}

void SliceFolderSource::read(
    const std::string& name,
    std::int64_t begin,
    at::Tensor& into) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    throw CheckpointError({.what = "not in the checkpoint", .where = name});
  }
  const Entry& entry = found->second;
  if (entry.type != into.scalar_type()) {
    throw CheckpointError(
        {.what = "saved in another type",
         .where = name,
         .values =
             name_of(entry.type) + ", wanted " + name_of(into.scalar_type())});
  }
  const std::int64_t size =
      static_cast<std::int64_t>(c10::elementSize(entry.type));
  const std::int64_t end = begin + into.numel();
  auto* target = static_cast<char*>(into.data_ptr());
  std::int64_t at = begin;
  for (const Piece& piece : entry.pieces) {
    if (piece.begin <= at && at < piece.end && at < end) {
      const std::int64_t count = std::min(end, piece.end) - at;
      std::memcpy(
          target + (at - begin) * size,
          files_[piece.file].bytes().data() + piece.offset +
              (at - piece.begin) * size,
          static_cast<std::size_t>(count * size));
      at += count;
    }
  }
  if (at != end) {
    throw CheckpointError(
        {.what = "part of a tensor is not in the checkpoint",
         .where = name,
         .values = fmt::format("elements {} to {}", at, end)});
  }
}

} // namespace cairn::checkpoints
