#include "checkpoint/native/native_source.h"

#include "checkpoint/native/damaged_checkpoint.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <cairn/base/crc32c.h>
#include <cairn/base/thread_pool.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

namespace cairn::checkpoints {

namespace {

/// Copies a part of the bytes; returns the checksum of them all.
std::uint32_t copy_summed(
    std::span<const std::byte> bytes,
    std::size_t from,
    std::span<std::byte> into) {
  const std::uint32_t before = crc32c(bytes.first(from));
  const std::uint32_t sum =
      crc32c_copy(into.data(), bytes.subspan(from, into.size()), before);
  return crc32c(bytes.subspan(from + into.size()), sum);
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
    tensor.name = &name;
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

/// Cuts a stretch of a stored slice at the borders of its blocks.
void NativeSource::plan_stretch(
    const Tensor& tensor,
    const StoredSlice& slice,
    std::int64_t from,
    std::span<std::byte> into,
    std::vector<Piece>& pieces) const {
  checked_[&slice].resize(slice.crc32c.size());
  std::size_t begin =
      static_cast<std::size_t>(from) * c10::elementSize(tensor.stored->type);
  while (!into.empty()) {
    const std::size_t in_block = begin % checksum_block;
    const std::size_t count = std::min(into.size(), checksum_block - in_block);
    pieces.push_back(
        {.tensor = &tensor,
         .slice = &slice,
         .block = begin / checksum_block,
         .from = in_block,
         .into = into.first(count)});
    into = into.subspan(count);
    begin += count;
  }
}

void NativeSource::plan(const SliceToRead& slice, std::vector<Piece>& pieces)
    const {
  const Tensor& tensor = at(slice.name);
  const BoxRuns wanted(tensor.stored->shape, slice.box);
  std::int64_t begin = slice.begin;
  if (begin < 0 || begin + slice.into.numel() > wanted.elements()) {
    throw CheckpointError(
        {.what = "more elements are wanted than were saved",
         .where = slice.name,
         .values = fmt::format(
             "{} to {} of {}",
             begin,
             begin + slice.into.numel(),
             wanted.elements())});
  }
  const std::size_t width = c10::elementSize(tensor.stored->type);
  std::span<std::byte> left{
      static_cast<std::byte*>(slice.into.data_ptr()),
      slice.into.nbytes()};
  while (!left.empty()) {
    const std::int64_t place = wanted.in_tensor(begin);
    std::int64_t count = std::min(
        wanted.run() - begin % wanted.run(),
        static_cast<std::int64_t>(left.size() / width));
    bool found = false;
    for (const Pieces& box : tensor.boxes) {
      const std::int64_t local = box.runs.in_box(place);
      if (local < 0) {
        continue;
      }
      // The last slice that begins at or before it.
      auto stored =
          std::ranges::upper_bound(box.slices, local, {}, &StoredSlice::begin);
      if (stored == box.slices.begin() || (*--stored)->end <= local) {
        continue;
      }
      count = std::min(
          {count,
           box.runs.run() - local % box.runs.run(),
           (*stored)->end - local});
      const auto bytes = static_cast<std::size_t>(count) * width;
      plan_stretch(
          tensor,
          **stored,
          local - (*stored)->begin,
          left.first(bytes),
          pieces);
      left = left.subspan(bytes);
      begin += count;
      found = true;
      break;
    }
    if (!found) {
      throw DamagedCheckpoint(
          {.what = "elements are missing: no rank saved them",
           .where = folder_.string(),
           .values = fmt::format("{}, element {}", slice.name, place)});
    }
  }
}

/// All of one block.
void NativeSource::copy_block(std::span<const Piece> pieces) const {
  const Piece& piece = pieces.front();
  const StoredSlice& slice = *piece.slice;
  const std::span<const std::byte> all =
      slice_bytes(slice, piece.tensor->stored->type);
  const std::size_t start = piece.block * checksum_block;
  const auto block =
      all.subspan(start, std::min(checksum_block, all.size() - start));
  char& checked = checked_.find(&slice)->second[piece.block];
  if (checked == 0) {
    const std::uint32_t sum = copy_summed(block, piece.from, piece.into);
    if (sum != slice.crc32c[piece.block]) {
      throw DamagedCheckpoint(
          {.what = "the file is damaged: bytes were altered",
           .where = (folder_ / manifest_.files[slice.file].name).string(),
           .values = fmt::format(
               "{}, bytes {} to {}",
               *piece.tensor->name,
               slice.at + start,
               slice.at + start + block.size())});
    }
    checked = 1;
    bytes_checked_ += block.size();
    pieces = pieces.subspan(1);
  }
  for (const Piece& other : pieces) {
    std::memcpy(
        other.into.data(),
        block.data() + other.from,
        other.into.size());
  }
}

/// In the order of the files, the next blocks by whichever thread is free.
void NativeSource::copy(std::vector<Piece>& pieces) const {
  const auto place = [](const Piece& piece) {
    return std::tuple(
        piece.slice->file,
        piece.slice->at,
        piece.slice,
        piece.block);
  };
  std::ranges::sort(pieces, {}, place);
  std::vector<std::span<const Piece>> blocks;
  for (auto begin = pieces.begin(); begin != pieces.end();) {
    const auto end = std::find_if(begin, pieces.end(), [&](const Piece& piece) {
      return piece.slice != begin->slice || piece.block != begin->block;
    });
    blocks.emplace_back(begin, end);
    begin = end;
  }
  const auto copy_some = [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      copy_block(blocks[i]);
    }
  };
  // Not at::parallel_for, which is serial for who is compiled without OpenMP.
  const auto threads = static_cast<std::size_t>(at::get_num_threads());
  constexpr std::size_t worth_a_thread = 8;
  if (threads == 1 || blocks.size() < worth_a_thread) {
    copy_some(0, blocks.size());
  } else {
    ThreadPool(threads - 1).parallel_for(blocks.size(), 2, copy_some);
  }
}

void NativeSource::read(const std::vector<SliceToRead>& slices) const {
  constexpr std::size_t most_staged = std::size_t{256} << 20;
  std::vector<Piece> pieces;
  std::vector<std::pair<at::Tensor, at::Tensor>> staged; // as saved, as wanted
  std::size_t staged_bytes = 0;
  const auto finish = [&] {
    copy(pieces);
    for (auto& [saved, wanted] : staged) {
      wanted.copy_(saved);
    }
    pieces.clear();
    staged.clear();
    staged_bytes = 0;
  };
  for (const SliceToRead& slice : slices) {
    const at::ScalarType type = at(slice.name).stored->type;
    const at::Tensor& into = slice.into;
    if (into.scalar_type() == type && into.is_cpu() && into.is_contiguous()) {
      plan(slice, pieces);
      continue;
    }
    SliceToRead near = slice;
    near.into = at::empty({into.numel()}, type);
    plan(near, pieces);
    staged.emplace_back(near.into, into);
    staged_bytes += near.into.nbytes();
    if (staged_bytes > most_staged) {
      finish();
    }
  }
  finish();
}

} // namespace cairn::checkpoints
