#include "memory_meter.h"

#include "engine/internal/device_memory.h"
#include "monitor/internal/process_memory.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

using namespace cairn;

MemoryMeter::MemoryMeter(at::Device device, std::optional<std::uint64_t> limit)
    : device_(device), limit_(limit), thread_([this] { watch(); }) {}

MemoryMeter::~MemoryMeter() {
  done_ = true;
  thread_.join();
}

std::uint64_t MemoryMeter::look() const {
  return device_.is_cuda() ? static_cast<std::uint64_t>(engine::held(device_))
                           : monitor::anonymous_resident();
}

void MemoryMeter::watch() {
  while (!done_) {
    const std::uint64_t bytes = look();
    sum_ += bytes;
    ++count_;
    most_ = std::max(most_.load(), bytes);
    if (limit_ && bytes > *limit_) {
      std::fprintf(
          stderr,
          "over the memory limit: %.1f MB of %.1f MB\n",
          static_cast<double>(bytes) / 1e6,
          static_cast<double>(*limit_) / 1e6);
      ::_exit(3);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

MemoryMeter::Reading MemoryMeter::read() {
  const std::uint64_t peak =
      device_.is_cuda() ? engine::allocated(device_).peak_bytes : 0;
  return {
      .average = static_cast<double>(sum_) /
          static_cast<double>(std::max<std::uint64_t>(1, count_)),
      .most = static_cast<double>(std::max(most_.load(), peak))};
}

void MemoryMeter::reset() {
  sum_ = 0;
  count_ = 0;
}
