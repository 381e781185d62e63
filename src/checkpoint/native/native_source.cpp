#include "checkpoint/native/native_source.h"

#include "checkpoint/native/damaged_checkpoint.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <cairn/base/crc32c.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace cairn::checkpoints {

namespace {

/// Copies a part of the bytes; returns the checksum of them all.
std::uint32_t copy_summed(
    std::byte* to,
    std::span<const std::byte> bytes,
    std::size_t from,
    std::size_t count) {
  const std::uint32_t before = crc32c(bytes.first(from));
  const std::uint32_t sum = crc32c_copy(to, bytes.subspan(from, count), before);
  return crc32c(bytes.subspan(from + count), sum);
}

} // namespace

NativeSource::NativeSource(const std::filesystem::path& folder)
    : folder_(folder), manifest_(read_manifest(folder)) {
  for (const ManifestFile& file : manifest_.files) {
    const std::filesystem::path path = folder / file.name;
    try {
      files_.emplace_back(path);
    } catch (const Error& error) {
      throw DamagedCheckpoint(error.problem());
    }
    if (files_.back().bytes().size() != file.bytes) {
      throw DamagedCheckpoint(
          {.what = "the file is cut off or was replaced",
           .where = path.string(),
           .values = fmt::format(
               "{} bytes, {} were written",
               files_.back().bytes().size(),
               file.bytes)});
    }
  }
  for (const auto& [name, stored] : manifest_.tensors) {
    std::map<Box, std::vector<const StoredSlice*>> boxes;
    for (const StoredSlice& slice : stored.slices) {
      if (slice.end > slice.begin) {
        boxes[slice.box].push_back(&slice);
      }
    }
    Tensor& tensor = tensors_[name];
    tensor.stored = &stored;
    for (auto& [box, slices] : boxes) {
      std::ranges::sort(slices, {}, &StoredSlice::begin);
      tensor.boxes.push_back({BoxRuns(stored.shape, box), std::move(slices)});
    }
  }
}

bool NativeSource::contains(const std::string& name) const {
  return tensors_.contains(name);
}

const NativeSource::Tensor& NativeSource::at(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    throw CheckpointError(
        {.what = fmt::format("\"{}\" is not in the checkpoint", name),
         .where = folder_.string()});
  }
  return found->second;
}

std::vector<std::int64_t> NativeSource::shape(const std::string& name) const {
  return at(name).stored->shape;
}

at::ScalarType NativeSource::type(const std::string& name) const {
  return at(name).stored->type;
}

std::span<const std::byte> NativeSource::slice_bytes(
    const StoredSlice& slice,
    at::ScalarType type) const {
  return files_[slice.file].bytes().subspan(
      slice.at,
      static_cast<std::size_t>(slice.end - slice.begin) *
          c10::elementSize(type));
}

void NativeSource::copy(
    const std::string& name,
    const StoredSlice& slice,
    at::ScalarType type,
    std::int64_t from,
    std::span<std::byte> into) const {
  if (into.empty()) {
    return;
  }
  const std::span<const std::byte> all = slice_bytes(slice, type);
  const std::size_t begin =
      static_cast<std::size_t>(from) * c10::elementSize(type);
  const std::size_t end = begin + into.size();
  std::vector<char>& checked = checked_[&slice];
  checked.resize(slice.crc32c.size());
  const auto copy_block = [&](std::size_t block) {
    const std::size_t start = block * checksum_block;
    const auto whole =
        all.subspan(start, std::min(checksum_block, all.size() - start));
    const std::size_t first = std::max(begin, start);
    const std::size_t count = std::min(end, start + whole.size()) - first;
    std::byte* const to = into.data() + (first - begin);
    if (checked[block] != 0) {
      std::memcpy(to, whole.data() + (first - start), count);
      return;
    }
    if (copy_summed(to, whole, first - start, count) != slice.crc32c[block]) {
      throw DamagedCheckpoint(
          {.what = "the file is damaged: bytes were altered",
           .where = (folder_ / manifest_.files[slice.file].name).string(),
           .values = fmt::format(
               "{}, bytes {} to {}",
               name,
               slice.at + start,
               slice.at + start + whole.size())});
    }
    checked[block] = 1;
    bytes_checked_ += whole.size();
  };
  constexpr std::int64_t blocks_of_a_thread = 4;
  at::parallel_for(
      static_cast<std::int64_t>(begin / checksum_block),
      static_cast<std::int64_t>((end - 1) / checksum_block + 1),
      blocks_of_a_thread,
      [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t block = first; block < last; ++block) {
          copy_block(static_cast<std::size_t>(block));
        }
      });
}

void NativeSource::read(
    const std::string& name,
    const Box& box,
    std::int64_t begin,
    at::Tensor& into) const {
  const Tensor& tensor = at(name);
  const at::ScalarType type = tensor.stored->type;
  if (into.scalar_type() != type || !into.is_cpu() || !into.is_contiguous()) {
    at::Tensor saved = at::empty({into.numel()}, type);
    read(name, box, begin, saved);
    into.copy_(saved);
    return;
  }
  const BoxRuns wanted(tensor.stored->shape, box);
  if (begin < 0 || begin + into.numel() > wanted.elements()) {
    throw CheckpointError(
        {.what = "more elements are wanted than were saved",
         .where = name,
         .values = fmt::format(
             "{} to {} of {}",
             begin,
             begin + into.numel(),
             wanted.elements())});
  }
  const std::size_t width = c10::elementSize(type);
  std::span<std::byte> left{
      static_cast<std::byte*>(into.data_ptr()),
      into.nbytes()};
  while (!left.empty()) {
    const std::int64_t place = wanted.in_tensor(begin);
    std::int64_t count = std::min(
        wanted.run() - begin % wanted.run(),
        static_cast<std::int64_t>(left.size() / width));
    bool found = false;
    for (const Pieces& pieces : tensor.boxes) {
      const std::int64_t local = pieces.runs.in_box(place);
      if (local < 0) {
        continue;
      }
      // The last slice that begins at or before it.
      auto slice = std::ranges::upper_bound(
          pieces.slices,
          local,
          {},
          &StoredSlice::begin);
      if (slice == pieces.slices.begin() || (*--slice)->end <= local) {
        continue;
      }
      count = std::min(
          {count,
           pieces.runs.run() - local % pieces.runs.run(),
           (*slice)->end - local});
      const auto bytes = static_cast<std::size_t>(count) * width;
      copy(name, **slice, type, local - (*slice)->begin, left.first(bytes));
      left = left.subspan(bytes);
      begin += count;
      found = true;
      break;
    }
    if (!found) {
      throw DamagedCheckpoint(
          {.what = "elements are missing: no rank saved them",
           .where = folder_.string(),
           .values = fmt::format("{}, element {}", name, place)});
    }
  }
}

} // namespace cairn::checkpoints
