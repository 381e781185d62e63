#include "base/internal/file_error.h"
#include "base/internal/sync_file.h"
#include "checkpoint/disk.h"
#include "io/internal/file_stream.h"

#include <cairn/base/file.h>
#include <cairn/io/io_queue.h>

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <tuple>

namespace cairn::bench {
namespace {

using Path = std::filesystem::path;

void save_buffered(
    const Path& path,
    std::span<const std::byte> bytes,
    bool reserved) {
  const UniqueFd file = open_file(path, O_WRONLY | O_CREAT | O_EXCL);
  if (reserved &&
      ::fallocate(file.get(), 0, 0, static_cast<off_t>(bytes.size())) != 0) {
    throw file_error("take room", path, errno);
  }
  constexpr std::size_t block = 4 << 20;
  while (!bytes.empty()) {
    const std::size_t size = std::min(block, bytes.size());
    write_all(file.get(), bytes.first(size), path);
    bytes = bytes.subspan(size);
  }
  sync_file(file.get(), path);
}

/// Writes straight from the memory that the bytes are in: no copy, no checksum.
void save_direct(
    const Path& path,
    std::span<const std::byte> bytes,
    std::int64_t block,
    std::int64_t depth,
    io::EngineKind kind) {
  io::IoQueue queue({.block_size = block, .queue_depth = depth}, kind);
  io::AsyncFile file = io::AsyncFile::create_new(path);
  file.reserve(0, bytes.size());
  queue.write(file, 0, bytes).wait();
  file.sync();
}

void save_stream(
    const Path& path,
    std::span<const std::byte> bytes,
    std::uint64_t expected_size,
    bool summed) {
  io::FileStream file(path, {.expected_size = expected_size});
  if (summed) {
    file.write_summed(bytes);
  } else {
    file.write(bytes);
  }
  file.finish();
}

} // namespace

std::vector<Way> ways_to_save(const Path& path, std::span<std::byte> bytes) {
  std::vector<Way> ways{
      {"disk: buffered", [=] { save_buffered(path, bytes, false); }},
      {"disk: buffered, reserved", [=] { save_buffered(path, bytes, true); }}};
  using enum io::EngineKind;
  for (const auto& [kib, depth, kind] :
       {std::tuple(1024, 1, threads),
        std::tuple(256, 16, threads),
        std::tuple(1024, 8, threads),
        std::tuple(4096, 4, threads),
        std::tuple(1024, 8, uring)}) {
    ways.push_back(
        {fmt::format(
             "disk: direct, {} KiB x {}, {}",
             kib,
             depth,
             to_string(kind)),
         [=, block = std::int64_t{kib} << 10, depth = depth, kind = kind] {
           save_direct(path, bytes, block, depth, kind);
         }});
  }
  for (const auto& [name, expected_size, summed] :
       {std::tuple("FileStream", bytes.size(), false),
        std::tuple("FileStream, size unknown", std::size_t{0}, false),
        std::tuple("FileStream, crc32c", bytes.size(), true)}) {
    ways.push_back({name, [=, expected = expected_size, summed = summed] {
                      save_stream(path, bytes, expected, summed);
                    }});
  }
  return ways;
}

} // namespace cairn::bench
