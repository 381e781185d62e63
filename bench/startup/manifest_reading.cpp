#include "startup/manifest_reading.h"

#include "base/internal/crc32c.h"
#include "best_seconds.h"
#include "checkpoints/internal/manifest.h"
#include "checkpoints/internal/native_source.h"

#include <ATen/ops/empty.h>
#include <cairn/base/file.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace cairn::bench {
namespace {

namespace fs = std::filesystem;
using namespace checkpoints;

struct Tensor {
  std::string name;
  std::int64_t elements = 0;
};

/// The weights of a GPT of 24 layers of width 2,048, and Adam's two states.
std::vector<Tensor> tensors_of_the_model() {
  constexpr std::int64_t width = 2048;
  std::vector<Tensor> tensors;
  for (const char* kind : {"weights", "exp_avg", "exp_avg_sq"}) {
    tensors.push_back({fmt::format("{}/embedding", kind), 50304 * width});
    for (int layer = 0; layer < 24; ++layer) {
      const std::pair<const char*, std::int64_t> parts[] = {
          {"qkv.weight", 3 * width * width},
          {"qkv.bias", 3 * width},
          {"dense.weight", width * width},
          {"dense.bias", width},
          {"up.weight", 4 * width * width},
          {"up.bias", 4 * width},
          {"down.weight", 4 * width * width},
          {"down.bias", width},
          {"norm1.weight", width},
          {"norm1.bias", width},
          {"norm2.weight", width},
          {"norm2.bias", width}};
      for (const auto& [part, elements] : parts) {
        tensors.push_back(
            {fmt::format("{}/layers.{}.{}", kind, layer, part), elements});
      }
    }
  }
  return tensors;
}

std::int64_t elements_of(const std::vector<Tensor>& tensors) {
  std::int64_t total = 0;
  for (const Tensor& tensor : tensors) {
    total += tensor.elements;
  }
  return total;
}

/// The checksums of `bytes` zeros, which is what sparse files hold.
std::vector<std::uint32_t> checksums_of_zeros(std::size_t bytes) {
  static const std::vector<std::byte> zeros(checksum_block);
  static const std::uint32_t of_a_block = crc32c(zeros);
  std::vector<std::uint32_t> sums(bytes / checksum_block, of_a_block);
  if (const std::size_t rest = bytes % checksum_block; rest > 0) {
    sums.push_back(crc32c(std::span(zeros).first(rest)));
  }
  return sums;
}

/// Cuts all tensors, laid end to end, into equal parts, one for each writer, as
/// ZeRO does.
std::vector<WrittenFile> files_of(int writers) {
  constexpr std::int64_t width = sizeof(float);
  const std::vector<Tensor> tensors = tensors_of_the_model();
  const std::int64_t share = (elements_of(tensors) + writers - 1) / writers;
  std::vector<WrittenFile> files(static_cast<std::size_t>(writers));
  std::int64_t at = 0;
  for (const Tensor& tensor : tensors) {
    for (std::int64_t begin = 0; begin < tensor.elements;) {
      WrittenFile& file = files[static_cast<std::size_t>(at / share)];
      const std::int64_t count =
          std::min(tensor.elements - begin, share - at % share);
      const auto bytes = static_cast<std::size_t>(count * width);
      file.slices.push_back(
          {.name = tensor.name,
           .shape = {tensor.elements},
           .stored = {
               .begin = begin,
               .end = begin + count,
               .at = file.file.bytes,
               .crc32c = checksums_of_zeros(bytes)}});
      file.file.bytes += bytes;
      begin += count;
      at += count;
    }
  }
  return files;
}

/// Reads the share of one of `ranks` ranks, and returns the number of files
/// that it opened.
std::size_t files_opened_by(
    const fs::path& folder,
    const Manifest& manifest,
    int rank,
    int ranks) {
  const std::vector<Tensor> tensors = tensors_of_the_model();
  const std::int64_t share = (elements_of(tensors) + ranks - 1) / ranks;
  const std::int64_t first = rank * share;
  const NativeSource source(folder, manifest, {.readers = ranks});
  std::int64_t at = 0;
  for (const Tensor& tensor : tensors) {
    const std::int64_t begin = std::max(first - at, std::int64_t{0});
    const std::int64_t end = std::min(first + share - at, tensor.elements);
    if (begin < end) {
      source.read(tensor.name, begin, at::empty({end - begin}));
    }
    at += tensor.elements;
  }
  return source.files_opened();
}

} // namespace

ManifestReading read_manifest_of(int writers) {
  const fs::path folder = fs::temp_directory_path() /
      fmt::format("cairn_startup_bench_{}", ::getpid());
  fs::create_directories(folder);
  Manifest manifest{.tag = "step1"};
  int writer = 0;
  for (WrittenFile& file : files_of(writers)) {
    file.file.name = fmt::format("rank{:05}.bin", writer++);
    write_file_atomically(folder / file.file.name, "");
    fs::resize_file(folder / file.file.name, file.file.bytes);
    add_file(manifest, file);
  }
  write_file_atomically(folder / manifest_name, to_text(manifest));
  ManifestReading result{.bytes = fs::file_size(folder / manifest_name)};
  result.reading_seconds =
      best_seconds(0.5, [&] { check_files(read_manifest(folder), folder); });
  const std::string text = read_manifest_text(folder);
  result.seconds = best_seconds(0.5, [&] {
    const NativeSource source(folder, manifest_from_text(text, folder), {});
  });
  // As many ranks as wrote, and one more: then no rank wants just one file.
  const int readers = writers + 1;
  for (const int rank : {0, readers / 2, readers - 1}) {
    result.most_files = std::max(
        result.most_files,
        files_opened_by(folder, manifest, rank, readers));
  }
  fs::remove_all(folder);
  return result;
}

} // namespace cairn::bench
