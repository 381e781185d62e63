#pragma once

#include <cstdint>
#include <string>

namespace cairn {

/// Bytes that one rank holds for training, by kind.
struct MemoryReport {
  std::string device;                 ///< where the model computes
  std::int64_t parameters = 0;        ///< resting: whole buckets and shards
  std::int64_t parameters_on_cpu = 0; ///< offloaded, with buffers for the disk
  std::int64_t parameters_on_disk = 0;
  std::int64_t gathered = 0; ///< stage 3: live for an operator, on top
  std::int64_t gradients = 0;
  std::int64_t gradients_on_cpu = 0; ///< offloaded with the optimizer
  std::int64_t optimizer = 0;        ///< fp32 weights and states, in memory
  std::int64_t optimizer_on_disk = 0;
  std::int64_t buffers = 0; ///< the module's own
  bool optimizer_on_cpu = false;
  /// Measured: what the process (CPU) or the allocator (GPU) holds beyond the
  /// above, now and at most; activations are the most of it.
  std::int64_t other = 0;
  std::int64_t allocated = 0;
  std::int64_t most_allocated = 0;

  std::int64_t model_states() const {
    return parameters + gradients + optimizer;
  }
  std::string describe() const; ///< a table for people
};

} // namespace cairn
