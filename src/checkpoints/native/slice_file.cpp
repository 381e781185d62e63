#include "checkpoints/internal/slice_file.h"

#include "checkpoints/internal/safetensors_header.h"
#include "checkpoints/native/box_runs.h"

#include <c10/util/accumulate.h>
#include <cairn/base/error.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace cairn::checkpoints {

namespace {

/// Alignment of the elements, for direct access to the disk.
constexpr std::size_t header_alignment = 4096;

/// Writes a slice's bytes, in portions of any size, and notes the checksum of
/// each block.
class BlockSums {
 public:
  BlockSums(std::vector<std::uint32_t>& sums, io::FileStream& stream)
      : sums_(sums), stream_(stream) {}

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      if (in_block_ == 0) {
        sums_.push_back(0);
      }
      const auto part =
          bytes.first(std::min(bytes.size(), checksum_block - in_block_));
      sums_.back() = stream_.write_summed(part, sums_.back());
      in_block_ = (in_block_ + part.size()) % checksum_block;
      bytes = bytes.subspan(part.size());
    }
  }

 private:
  std::vector<std::uint32_t>& sums_;
  io::FileStream& stream_;
  std::size_t in_block_ = 0;
};

} // namespace

SafetensorsWriter::Entry safetensors_entry(const WrittenFile::Slice& slice) {
  const StoredSlice& stored = slice.stored;
  const std::int64_t elements = BoxRuns(slice.shape, stored.box).elements();
  if (stored.begin == 0 && stored.end == elements) {
    if (stored.box.empty()) {
      return {slice.name, slice.type, slice.shape};
    }
    return {
        fmt::format("{}[at {}]", slice.name, fmt::join(stored.box.begin, ", ")),
        slice.type,
        stored.box.size};
  }
  std::string name = slice.name;
  if (!stored.box.empty()) {
    name += fmt::format("[at {}]", fmt::join(stored.box.begin, ", "));
  }
  return {
      fmt::format("{}[{}:{}]", name, stored.begin, stored.end),
      slice.type,
      {stored.end - stored.begin}};
}

namespace {

SafetensorsHeader planned_header(
    const std::vector<WrittenFile::Slice>& slices,
    const std::filesystem::path& path) {
  std::vector<SafetensorsWriter::Entry> entries;
  for (const WrittenFile::Slice& slice : slices) {
    entries.push_back(safetensors_entry(slice));
  }
  return safetensors_header(
      entries,
      {{"format", "pt"}, {"part_of", "a Cairn checkpoint"}},
      path,
      header_alignment);
}

} // namespace

std::string slice_file_header(
    const std::vector<WrittenFile::Slice>& slices,
    const std::filesystem::path& path) {
  return planned_header(slices, path).bytes;
}

struct SliceFile::Planned {
  std::vector<WrittenFile::Slice> slices;
  SafetensorsHeader header;
};

SliceFile::Planned SliceFile::placed(
    std::vector<WrittenFile::Slice> slices,
    const std::filesystem::path& path) {
  SafetensorsHeader header = planned_header(slices, path);
  Planned planned{.slices = std::move(slices), .header = std::move(header)};
  std::uint64_t at = planned.header.bytes.size();
  for (WrittenFile::Slice& slice : planned.slices) {
    slice.stored.at = at;
    at += static_cast<std::uint64_t>(slice.stored.end - slice.stored.begin) *
        c10::elementSize(slice.type);
  }
  return planned;
}

void SlicePlan::put(const TensorSlice& slice) {
  slices_.push_back(
      {.name = slice.name,
       .type = slice.values.scalar_type(),
       .shape = slice.shape,
       .stored = {.box = slice.box, .begin = slice.begin, .end = slice.end()}});
  bytes_ += slice.values.nbytes();
}

SliceFile::SliceFile(
    const std::filesystem::path& path,
    std::vector<WrittenFile::Slice> plan)
    : SliceFile(path, placed(std::move(plan), path)) {}

SliceFile::SliceFile(const std::filesystem::path& path, Planned planned)
    : written_{
          .file =
              {path.filename().string(),
               planned.header.bytes.size() + planned.header.elements_bytes},
          .slices = std::move(planned.slices)},
      stream_(path, {.expected_size = written_.file.bytes}) {
  stream_.write(std::as_bytes(std::span(planned.header.bytes)));
}

StoredSlice& SliceFile::next(
    const std::string& name,
    at::ScalarType type,
    std::int64_t begin,
    std::int64_t end) {
  if (next_ == written_.slices.size()) {
    throw InternalError({.what = "a slice more than planned"});
  }
  WrittenFile::Slice& planned = written_.slices[next_++];
  if (planned.name != name || planned.stored.begin != begin ||
      planned.stored.end != end || planned.type != type) {
    throw InternalError(
        {.what = "another slice than planned",
         .values = fmt::format("{}, planned {}", name, planned.name)});
  }
  return planned.stored;
}

void SliceFile::put(const TensorSlice& slice) {
  StoredSlice& stored =
      next(slice.name, slice.values.scalar_type(), slice.begin, slice.end());
  const at::Tensor values = slice.values.cpu().contiguous();
  BlockSums sums(stored.crc32c, stream_);
  sums.write(
      {static_cast<const std::byte*>(values.const_data_ptr()),
       values.nbytes()});
}

void SliceFile::put(const std::string& name, const LazyTensor& tensor) {
  BlockSums sums(
      next(name, tensor.type, 0, c10::multiply_integers(tensor.shape)).crc32c,
      stream_);
  tensor.stream([&](std::span<const std::byte> part) { sums.write(part); });
}

WrittenFile SliceFile::finish() {
  if (next_ != written_.slices.size()) {
    throw InternalError({.what = "fewer slices than planned"});
  }
  stream_.finish();
  return std::move(written_);
}

} // namespace cairn::checkpoints
