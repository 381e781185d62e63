#include "startup/manifest_reading.h"

#include "best_seconds.h"
#include "checkpoints/internal/manifest.h"
#include "checkpoints/internal/native_source.h"

#include <cairn/base/file.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
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

/// Cuts all tensors, laid end to end, into equal parts, one for each writer, as
/// ZeRO does.
std::vector<WrittenFile> files_of(int writers) {
  constexpr std::int64_t width = sizeof(float);
  const std::vector<Tensor> tensors = tensors_of_the_model();
  std::int64_t total = 0;
  for (const Tensor& tensor : tensors) {
    total += tensor.elements;
  }
  const std::int64_t share = (total + writers - 1) / writers;
  std::vector<WrittenFile> files(static_cast<std::size_t>(writers));
  std::int64_t at = 0;
  for (const Tensor& tensor : tensors) {
    for (std::int64_t begin = 0; begin < tensor.elements;) {
      WrittenFile& file = files[static_cast<std::size_t>(at / share)];
      const std::int64_t count =
          std::min(tensor.elements - begin, share - at % share);
      const auto bytes = static_cast<std::size_t>(count * width);
      const std::size_t blocks = (bytes + checksum_block - 1) / checksum_block;
      file.slices.push_back(
          {.name = tensor.name,
           .shape = {tensor.elements},
           .stored = {
               .begin = begin,
               .end = begin + count,
               .at = file.file.bytes,
               .crc32c = std::vector<std::uint32_t>(blocks, 0x12345678U)}});
      file.file.bytes += bytes;
      begin += count;
      at += count;
    }
  }
  return files;
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
  const double seconds =
      best_seconds(0.5, [&] { const NativeSource source(folder); });
  const ManifestReading result{seconds, fs::file_size(folder / manifest_name)};
  fs::remove_all(folder);
  return result;
}

} // namespace cairn::bench
