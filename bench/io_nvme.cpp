// Reads and writes of a file without the page cache, in GB/s:
//
//   io_nvme_bench FOLDER [MEGABYTES]
//
// The peer is what `dd oflag=direct bs=1M` does: one block after the other. The
// file's blocks are written once before, as in training, where arrays are
// written again and again.
#include "base/internal/file_error.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <cairn/io/aligned_buffer.h>
#include <cairn/io/io_queue.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string_view>

namespace {

using namespace cairn;

struct Rates {
  double write = 0;
  double read = 0;
};

constexpr int runs = 5;

double best_rate(std::size_t bytes, const std::function<void()>& work) {
  double best = 0;
  for (int run = 0; run < runs; ++run) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
            .count();
    best = std::max(best, static_cast<double>(bytes) / seconds);
  }
  return best;
}

template <typename Call>
void block_by_block(std::span<std::byte> bytes, Call call) {
  constexpr std::size_t block = 1 << 20;
  for (std::size_t at = 0; at < bytes.size(); at += block) {
    if (call(bytes.subspan(at, block), static_cast<off_t>(at)) !=
        static_cast<ssize_t>(block)) {
      throw file_error("move a block", "the plain file", errno);
    }
  }
}

Rates plain(const std::filesystem::path& path, std::span<std::byte> bytes) {
  const UniqueFd file = open_file(path, O_RDWR | O_DIRECT);
  Rates rates;
  rates.write = best_rate(bytes.size(), [&] {
    block_by_block(bytes, [&](auto block, off_t at) {
      return ::pwrite(file.get(), block.data(), block.size(), at);
    });
  });
  rates.read = best_rate(bytes.size(), [&] {
    block_by_block(bytes, [&](auto block, off_t at) {
      return ::pread(file.get(), block.data(), block.size(), at);
    });
  });
  return rates;
}

Rates queued(
    const std::filesystem::path& folder,
    std::span<std::byte> bytes,
    const config::AioConfig& config,
    io::EngineKind kind) {
  io::IoQueue queue(config, kind);
  io::AsyncFile file = io::AsyncFile::create_unnamed(folder);
  file.reserve(0, bytes.size());
  queue.write(file, 0, bytes).wait();
  return {
      best_rate(bytes.size(), [&] { queue.write(file, 0, bytes).wait(); }),
      best_rate(bytes.size(), [&] { queue.read(file, 0, bytes).wait(); })};
}

void print(std::string_view name, const Rates& rates, const Rates& peer) {
  fmt::print(
      "{:<28}{:>8.2f} ({:.2f}x){:>8.2f} ({:.2f}x)\n",
      name,
      rates.write / 1e9,
      rates.write / peer.write,
      rates.read / 1e9,
      rates.read / peer.read);
  std::fflush(stdout);
}

void measure(const std::filesystem::path& folder, std::size_t megabytes) {
  const io::AlignedBuffer memory(megabytes << 20);
  for (std::size_t i = 0; i < memory.size(); ++i) {
    memory.data()[i] = static_cast<std::byte>((i * 0x9e3779b97f4a7c15U) >> 56);
  }
  const auto path = folder / "io_nvme_bench";
  {
    io::IoQueue queue;
    io::AsyncFile file = io::AsyncFile::create(path);
    queue.write(file, 0, memory.bytes()).wait();
    file.sync();
    fmt::print(
        "{}: {} MiB, {}, best of {}\n{:<28}{:>8} {:>15}\n",
        folder.string(),
        megabytes,
        to_string(file.access()),
        runs,
        "",
        "write",
        "read GB/s");
  }
  const Rates peer = plain(path, memory.bytes());
  std::filesystem::remove(path);
  print("pwrite, pread with O_DIRECT", peer, peer);
  for (const auto kind : {io::EngineKind::uring, io::EngineKind::threads}) {
    for (const std::int64_t depth : {1, 8, 32}) {
      const auto name = fmt::format("{}, depth {}", to_string(kind), depth);
      try {
        const config::AioConfig config{.queue_depth = depth};
        print(name, queued(folder, memory.bytes(), config, kind), peer);
      } catch (const ConfigError& error) {
        fmt::print("{:<28}{}\n", name, error.what());
      }
    }
  }
}

} // namespace

int main(int count, char** words) {
  std::size_t megabytes = 1024;
  const std::string_view size = count > 2 ? words[2] : "1024";
  const auto [end, problem] =
      std::from_chars(size.data(), size.data() + size.size(), megabytes);
  if (count < 2 || count > 3 || problem != std::errc() ||
      end != size.data() + size.size() || megabytes == 0) {
    fmt::print(stderr, "usage: {} FOLDER [MEGABYTES]\n", words[0]);
    return 2;
  }
  try {
    measure(words[1], megabytes);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
