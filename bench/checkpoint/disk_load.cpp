#include "base/internal/file_error.h"
#include "checkpoint/disk.h"

#include <cairn/base/file.h>
#include <cairn/base/mapped_file.h>
#include <cairn/io/io_queue.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

namespace cairn::bench {
namespace {

using Path = std::filesystem::path;
using Bytes = std::span<std::byte>;

void in_threads(
    std::size_t threads,
    std::size_t size,
    const std::function<void(std::size_t at, std::size_t size)>& work) {
  const std::size_t each = (size / threads + 4095) / 4096 * 4096;
  std::vector<std::jthread> running;
  for (std::size_t at = 0; at < size; at += each) {
    running.emplace_back([=] { work(at, std::min(each, size - at)); });
  }
}

void load_mapped(const Path& path, Bytes into, std::size_t threads) {
  const MappedFile file(path);
  in_threads(threads, into.size(), [&](std::size_t at, std::size_t size) {
    std::memcpy(into.data() + at, file.bytes().data() + at, size);
  });
}

void load_read(const Path& path, Bytes into, std::size_t threads) {
  const UniqueFd file = open_file(path, O_RDONLY);
  in_threads(threads, into.size(), [&](std::size_t at, std::size_t size) {
    for (const std::size_t end = at + size; at < end;) {
      const ssize_t got = ::pread(
          file.get(),
          into.data() + at,
          std::min<std::size_t>(end - at, 4 << 20),
          static_cast<off_t>(at));
      if (got <= 0) {
        throw file_error("read", path, got < 0 ? errno : EIO);
      }
      at += static_cast<std::size_t>(got);
    }
  });
}

void load_direct(const Path& path, Bytes into) {
  io::IoQueue queue({.block_size = 512 << 10, .queue_depth = 16});
  queue.read(io::AsyncFile::open_for_reading(path), 0, into).wait();
}

} // namespace

std::vector<Way> ways_to_load(const Path& path, Bytes bytes) {
  return {
      {"mmap and memcpy", [=] { load_mapped(path, bytes, 1); }},
      {"mmap and memcpy, 2 threads", [=] { load_mapped(path, bytes, 2); }},
      {"pread", [=] { load_read(path, bytes, 1); }},
      {"pread, 2 threads", [=] { load_read(path, bytes, 2); }},
      {"direct", [=] { load_direct(path, bytes); }}};
}

} // namespace cairn::bench
