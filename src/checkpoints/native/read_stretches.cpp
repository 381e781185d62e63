#include "checkpoints/native/read_stretches.h"

#include "base/internal/large_buffer.h"
#include "base/internal/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <vector>

namespace cairn::checkpoints {
namespace {

/// Number of stretches from which threads and direct reads pay. Fewer do not
/// keep a disk busy: the kernel, which reads ahead, is better at those.
constexpr std::size_t several = 8;
/// Requests that a disk should have at a time. A thread that waits for one
/// takes no core.
constexpr std::size_t in_flight = 8;

/// True for each stretch that is to be read past the page cache; empty if none
/// is.
std::vector<char> absent_stretches(std::span<const FileStretch> stretches) {
  std::vector<char> absent;
  std::size_t count = 0;
  for (const FileStretch& stretch : stretches) {
    absent.push_back(stretch.file->in_cache(stretch.at) ? 0 : 1);
    count += absent.back() == 0 ? 0U : 1U;
  }
  return count < several ? std::vector<char>{} : absent;
}

} // namespace

void read_stretches(
    std::span<const FileStretch> stretches,
    const ReadStretchesOptions& options,
    const std::function<void(std::size_t i, std::span<const std::byte>)>&
        take) {
  if (stretches.empty()) {
    return;
  }
  const std::vector<char> absent =
      options.past_cache ? absent_stretches(stretches) : std::vector<char>{};
  std::size_t threads = stretches.size() < several ? 1 : options.threads;
  std::size_t room = 0;
  if (!absent.empty()) {
    threads = std::max(threads, in_flight);
    room = StoredFile::room_for(
        std::ranges::max(stretches, {}, &FileStretch::size).size);
  }
  const LargeBuffer memory(threads * room);
  std::atomic<std::size_t> next = 0;
  const auto work = [&](std::size_t thread, std::size_t) {
    const auto mine = memory.as<std::byte>().subspan(thread * room, room);
    try {
      for (std::size_t i = next++; i < stretches.size(); i = next++) {
        const auto& [file, at, size] = stretches[i];
        const bool is_absent = !absent.empty() && absent[i] != 0;
        take(
            i,
            is_absent ? file->read(at, size, mine) : file->mapped(at, size));
      }
    } catch (...) {
      next = stretches.size();
      throw;
    }
  };
  if (threads == 1) {
    work(0, 1);
  } else {
    ThreadPool(threads - 1).parallel_for(threads, 1, work);
  }
}

} // namespace cairn::checkpoints
