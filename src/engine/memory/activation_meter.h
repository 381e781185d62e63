#pragma once

#include <c10/core/Device.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "engine/internal/device_memory.h"

namespace cairn::inline engine {

/// Measures the memory that forward passes leave for their backward: the growth
/// of the allocator's memory from the begin of forward to the begin of
/// backward. Parameters that are gathered meanwhile (`gathered` bytes at each
/// call) do not count.
class ActivationMeter {
 public:
  explicit ActivationMeter(at::Device device) : device_(device) {}

  /// Begins a measurement, unless one runs: forward passes may follow each
  /// other.
  void begin_forward(std::int64_t gathered) {
    if (!before_) {
      before_ = held(device_) - gathered;
    }
  }
  void begin_backward(std::int64_t gathered) {
    if (before_) {
      most_ = std::max(most_, held(device_) - gathered - *before_);
      before_.reset();
    }
  }
  std::int64_t most() const { return most_; } ///< bytes, 0 before the first

 private:
  at::Device device_;
  std::optional<std::int64_t> before_;
  std::int64_t most_ = 0;
};

} // namespace cairn::engine
