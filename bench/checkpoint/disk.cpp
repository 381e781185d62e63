// Speed of the disk with the bytes of a checkpoint, in GB/s:
//
//   checkpoint_disk_bench save|load|load-cold FOLDER [MEGABYTES]
//
// The ways are tried in turns. Every save is to a new file, ends with fsync,
// and the file is removed, untimed, before the next. One JSON object: `ways`
// has the median of each; `value` is that of a FileStream with checksums (save)
// or of a mapped file (load).
#include "checkpoint/disk.h"

#include "base/internal/file_error.h"
#include "base/internal/large_buffer.h"
#include "io/internal/file_stream.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <cairn/io/io_queue.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace cairn::bench {

void run_in_turns(
    std::vector<Way>& ways,
    int rounds,
    const std::function<void()>& before,
    const std::function<void()>& after) {
  using Clock = std::chrono::steady_clock;
  for (int round = 0; round < rounds; ++round) {
    for (Way& way : ways) {
      before();
      const auto start = Clock::now();
      way.move();
      way.seconds.push_back(
          std::chrono::duration<double>(Clock::now() - start).count());
      after();
    }
  }
}

namespace {

/// Freeing a large file keeps a disk busy for a second: not in the next save.
void remove_for_good(const std::filesystem::path& path) {
  std::filesystem::remove(path);
  ::syncfs(open_file(path.parent_path(), O_RDONLY | O_DIRECTORY).get());
}

void print(std::vector<Way>& ways, std::size_t bytes, std::string_view value) {
  const double gigabytes = 1e-9 * static_cast<double>(bytes);
  std::string list;
  std::string chosen;
  for (Way& way : ways) {
    std::ranges::sort(way.seconds);
    const double median = gigabytes / way.seconds[way.seconds.size() / 2];
    list += fmt::format(
        R"({}"{}": {:.4g})",
        list.empty() ? "" : ", ",
        way.name,
        median);
    if (way.name == value) {
      chosen = fmt::format(
          R"("value": {:.4g}, "unit": "GB/s", "best": {:.4g}, "worst": {:.4g}, "samples": {})",
          median,
          gigabytes / way.seconds.front(),
          gigabytes / way.seconds.back(),
          way.seconds.size());
    }
  }
  fmt::print(R"({{{}, "ways": {{{}}}}})", chosen, list);
  fmt::print("\n");
}

void measure(
    std::string_view what,
    const std::filesystem::path& folder,
    std::size_t size) {
  const char* quick = std::getenv("QUICK");
  const int rounds = quick != nullptr && *quick != 0 ? 1 : 5;
  const auto path = folder / "checkpoint_disk_bench";
  const LargeBuffer memory(size);
  const auto bytes = memory.as<std::byte>();
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>((i * 0x9e3779b97f4a7c15U) >> 56U);
  }
  const auto nothing = [] {};
  remove_for_good(path);
  if (what == "save") {
    auto ways = ways_to_save(path, bytes);
    run_in_turns(ways, rounds, nothing, [&] { remove_for_good(path); });
    print(ways, size, "FileStream, crc32c");
    return;
  }
  io::FileStream file(path, {.expected_size = size});
  file.write(bytes);
  file.finish();
  auto ways = ways_to_load(path, bytes);
  const bool cold = what == "load-cold";
  if (!cold) {
    ways.pop_back();     // past the cache, it would be cold
    ways.front().move(); // into the cache
  }
  run_in_turns(
      ways,
      rounds,
      [&] {
        if (cold) {
          // Read before it is forgotten, so that all ways find the cache's
          // memory alike; else the one after a direct read took far longer.
          ways.front().move();
          io::AsyncFile::open_for_reading(path).drop_cache();
        }
      },
      nothing);
  remove_for_good(path);
  print(ways, size, "mmap and memcpy");
}

} // namespace
} // namespace cairn::bench

int main(int count, char** words) {
  const std::string_view what = count > 2 ? words[1] : "";
  // GPT-2 124M, its tied weight once, with both moments of Adam, in fp32.
  const std::size_t size = count > 3
      ? std::strtoull(words[3], nullptr, 10) * 1'000'000
      : 124'439'808ULL * 12;
  if ((what != "save" && what != "load" && what != "load-cold") || size == 0) {
    fmt::print(
        stderr,
        "usage: {} save|load|load-cold FOLDER [MEGABYTES]\n",
        words[0]);
    return 2;
  }
  try {
    cairn::bench::measure(what, words[2], size);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
