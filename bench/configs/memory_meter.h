#pragma once

#include <c10/core/Device.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <thread>

/// Looks at the memory of this process every few milliseconds: what libtorch's
/// allocator has handed out on a GPU, else the pages that belong to no file.
class MemoryMeter {
 public:
  /// A process that takes more than `limit` bytes is ended, with exit code 3:
  /// its model does not fit.
  MemoryMeter(at::Device device, std::optional<std::uint64_t> limit);
  ~MemoryMeter();
  MemoryMeter(const MemoryMeter&) = delete;
  MemoryMeter& operator=(const MemoryMeter&) = delete;

  struct Reading {
    double average = 0; ///< over the time since reset(), in bytes
    double most = 0;    ///< since the meter was made
  };
  Reading read();
  void reset(); ///< the average

 private:
  std::uint64_t look() const;
  void watch();

  at::Device device_;
  std::optional<std::uint64_t> limit_;
  std::atomic<std::uint64_t> sum_ = 0;
  std::atomic<std::uint64_t> count_ = 0;
  std::atomic<std::uint64_t> most_ = 0;
  std::atomic<bool> done_ = false;
  std::thread thread_;
};
