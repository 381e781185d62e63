#include "checkpoints/internal/native_source.h"

#include "base/internal/crc32c.h"
#include "checkpoints/internal/damaged_checkpoint.h"
#include "checkpoints/tensors/lazy_operations.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

namespace cairn::checkpoints {

namespace {

/// Copies a part of the bytes; returns the checksum of all of them.
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

NativeSource::NativeSource(
    const std::filesystem::path& folder,
    const Options& options)
    : NativeSource(folder, read_manifest(folder), options) {
  check_files(manifest_, folder_);
}

NativeSource::NativeSource(
    std::filesystem::path folder,
    Manifest manifest,
    const Options& options)
    : folder_(std::move(folder)),
      manifest_(std::move(manifest)),
      options_(options) {
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

const StoredFile& NativeSource::file(std::size_t number) const {
  const auto found = files_.find(number);
  if (found != files_.end()) {
    return found->second;
  }
  const ManifestFile& file = manifest_.files[number];
  try {
    const StoredFile& opened =
        files_.try_emplace(number, folder_ / file.name).first->second;
    check_size(file, opened.size(), folder_);
    return opened;
  } catch (const DamagedCheckpoint&) {
    files_.erase(number); // the next reader must not trust it either
    throw;
  } catch (const Error& error) {
    throw DamagedCheckpoint(error.problem());
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
      // The last slice that begins at or before this element.
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

void NativeSource::copy_block(
    const Block& block,
    std::span<const std::byte> bytes) const {
  std::span<const Piece> pieces = block.pieces;
  const Piece& piece = pieces.front();
  const StoredSlice& slice = *piece.slice;
  char& checked = checked_.find(&slice)->second[piece.block];
  if (checked == 0) {
    const std::uint32_t sum = copy_summed(bytes, piece.from, piece.into);
    if (sum != slice.crc32c[piece.block]) {
      throw DamagedCheckpoint(
          {.what = "the file is damaged: bytes were altered",
           .where = (folder_ / manifest_.files[slice.file].name).string(),
           .values = fmt::format(
               "{}, bytes {} to {}",
               *piece.tensor->name,
               block.at,
               block.at + block.size)});
    }
    checked = 1;
    bytes_checked_ += block.size;
    pieces = pieces.subspan(1);
  }
  for (const Piece& other : pieces) {
    std::memcpy(
        other.into.data(),
        bytes.data() + other.from,
        other.into.size());
  }
}

/// Groups pieces by block, in the order of the files.
std::vector<NativeSource::Block> NativeSource::blocks_of(
    std::vector<Piece>& pieces) {
  std::ranges::sort(pieces, {}, [](const Piece& piece) {
    return std::tuple(
        piece.slice->file,
        piece.slice->at,
        piece.slice,
        piece.block);
  });
  std::vector<Block> blocks;
  for (auto begin = pieces.begin(); begin != pieces.end();) {
    const auto end = std::find_if(begin, pieces.end(), [&](const Piece& piece) {
      return piece.slice != begin->slice || piece.block != begin->block;
    });
    const StoredSlice& slice = *begin->slice;
    const std::size_t start = begin->block * checksum_block;
    const std::size_t all = static_cast<std::size_t>(slice.end - slice.begin) *
        c10::elementSize(begin->tensor->stored->type);
    blocks.push_back(
        {.pieces = {begin, end},
         .at = slice.at + start,
         .size = std::min(checksum_block, all - start)});
    begin = end;
  }
  return blocks;
}

NativeSource::Batches NativeSource::batches_of(
    const std::vector<Block>& blocks) const {
  Batches batches;
  for (const Block& block : blocks) {
    const StoredFile* from = &file(block.pieces.front().slice->file);
    const std::uint64_t end = block.at + block.size;
    if (!batches.blocks.empty()) {
      auto& some = batches.blocks.back();
      FileStretch& stretch = batches.stretches.back();
      // A batch never goes backwards, whatever a manifest says.
      if (stretch.file == from && block.at >= stretch.at &&
          end - stretch.at <= checksum_block) {
        some = {some.data(), some.size() + 1};
        stretch.size = std::max<std::size_t>(stretch.size, end - stretch.at);
        continue;
      }
    }
    batches.blocks.emplace_back(&block, 1);
    batches.stretches.push_back({from, block.at, block.size});
  }
  return batches;
}

bool NativeSource::share_nothing(
    const std::vector<FileStretch>& stretches) const {
  std::uint64_t wanted = 0;
  for (const FileStretch& stretch : stretches) {
    wanted += stretch.size;
  }
  std::uint64_t stored = 0;
  for (const ManifestFile& file : manifest_.files) {
    stored += file.bytes;
  }
  // A quarter more is accepted, because blocks at the borders between ranks are
  // always shared.
  return wanted * static_cast<std::uint64_t>(options_.readers) <=
      stored + stored / 4;
}

void NativeSource::copy(std::vector<Piece>& pieces) const {
  const std::vector<Block> blocks = blocks_of(pieces);
  const Batches batches = batches_of(blocks);
  read_stretches(
      batches.stretches,
      {.threads = static_cast<std::size_t>(at::get_num_threads()),
       .past_cache = options_.readers > 0 && share_nothing(batches.stretches)},
      [&](std::size_t i, std::span<const std::byte> bytes) {
        for (const Block& block : batches.blocks[i]) {
          copy_block(
              block,
              bytes.subspan(block.at - batches.stretches[i].at, block.size));
        }
      });
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

LazyTensor lazy_tensor(
    const std::shared_ptr<const NativeSource>& source,
    const std::string& name) {
  LazyTensor flat;
  flat.type = source->type(name);
  flat.open = [source, name]() -> LazyTensor::Rows {
    return [source, name](std::int64_t begin, std::int64_t end) {
      at::Tensor values = at::empty({end - begin}, source->type(name));
      source->read(name, begin, values);
      return values;
    };
  };
  return reshaped(std::move(flat), source->shape(name));
}

} // namespace cairn::checkpoints
