#pragma once

#include <cstdint>
#include <string>

namespace cairn::inline engine {

/// Bytes that one rank holds for training, by kind. What is not said to be
/// elsewhere is on `device`, where the model computes.
struct MemoryReport {
  std::string device;
  std::int64_t parameters = 0; ///< resting: whole buckets and shards
  std::int64_t gathered = 0;   ///< stage 3: live for an operator, on top
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0; ///< fp32 weights and states
  std::int64_t buffers = 0;   ///< the module's own
  /// Measured: the most that the forward passes of a micro batch left for its
  /// backward. 0 before the first backward.
  std::int64_t activations = 0;
  // Elsewhere: in CPU memory only while the model is on a GPU, or to and from
  // a disk.
  std::int64_t parameters_on_cpu = 0;
  std::int64_t gradients_on_cpu = 0;
  std::int64_t optimizer_on_cpu = 0;
  std::int64_t parameters_on_disk = 0;
  std::int64_t optimizer_on_disk = 0;
  /// Measured, now and at most: what the process (CPU) or libtorch's allocator
  /// (GPU) has, and how much of it is none of the above.
  std::int64_t allocated = 0;
  std::int64_t most_allocated = 0;
  std::int64_t other = 0;

  std::int64_t model_states() const {
    return parameters + gradients + optimizer;
  }
  std::string describe() const; ///< a table for people
};

} // namespace cairn::engine
