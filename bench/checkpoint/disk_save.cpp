#include "checkpoint/disk.h"

#include "base/file_error.h"
#include "base/sync_file.h"

#include <cairn/base/crc32c.h>
#include <cairn/base/file.h>
#include <cairn/io/async_file.h>
#include <cairn/io/file_stream.h>
#include <cairn/io/io_queue.h>

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

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

/// Straight from the memory it is in: no copy, no checksum.
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
    const io::FileStream::Options& options) {
  io::FileStream file(path, options);
  file.write(bytes);
  file.finish();
}

void save_stream_with_sum(const Path& path, std::span<const std::byte> bytes) {
  io::FileStream file(path, {.expected_size = bytes.size()});
  std::uint32_t sum = 0;
  while (!bytes.empty()) {
    const std::span<std::byte> room = file.room();
    const auto part = bytes.first(std::min(room.size(), bytes.size()));
    sum = crc32c_copy(room.data(), part, sum);
    file.advance(part.size());
    bytes = bytes.subspan(part.size());
  }
  file.finish();
}

} // namespace

std::vector<Way> ways_to_save(const Path& path, std::span<std::byte> bytes) {
  std::vector<Way> ways{
      {"disk: buffered", [=] { save_buffered(path, bytes, false); }},
      {"disk: buffered, reserved", [=] { save_buffered(path, bytes, true); }}};
  using enum io::EngineKind;
  for (const auto& [kind, kib, depth] :
       {std::tuple(threads, 1024, 1),
        std::tuple(threads, 4096, 4),
        std::tuple(threads, 1024, 4),
        std::tuple(threads, 1024, 8),
        std::tuple(threads, 512, 8),
        std::tuple(threads, 256, 16),
        std::tuple(threads, 512, 16),
        std::tuple(uring, 512, 16),
        std::tuple(uring, 256, 32),
        std::tuple(uring, 1024, 8)}) {
    ways.push_back(
        {fmt::format(
             "disk: direct, {} KiB x {}, {}",
             kib,
             depth,
             to_string(kind)),
         [=, kind = kind, block = std::int64_t{kib} << 10, depth = depth] {
           save_direct(path, bytes, block, depth, kind);
         }});
  }
  for (const auto& [kib, blocks] :
       {std::pair(256, 16),
        std::pair(256, 32),
        std::pair(512, 8),
        std::pair(512, 16),
        std::pair(1024, 8),
        std::pair(1024, 16)}) {
    ways.push_back(
        {fmt::format("FileStream {} x {}", kib, blocks),
         [=, kib = kib, blocks = blocks] {
           save_stream(
               path,
               bytes,
               {.expected_size = bytes.size(),
                .block_size = static_cast<std::size_t>(kib) << 10,
                .blocks = static_cast<std::size_t>(blocks)});
         }});
  }
  ways.push_back(
      {"FileStream, size unknown", [=] { save_stream(path, bytes, {}); }});
  ways.push_back(
      {"FileStream, crc32c", [=] { save_stream_with_sum(path, bytes); }});
  return ways;
}

} // namespace cairn::bench
