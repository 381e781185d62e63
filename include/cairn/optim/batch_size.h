#pragma once

#include <cstdint>

namespace cairn::optim {

/// What one training step takes.
struct BatchSize {
  std::int64_t global = 0;  ///< as the schedule says
  std::int64_t running = 0; ///< what the ranks can share evenly of it
  std::int64_t microbatches = 0;

  bool operator==(const BatchSize&) const = default;
};

/// What a batch is divided by.
struct BatchShare {
  std::int64_t micro_batch_size = 1;
  std::int64_t data_parallel_size = 1;

  /// Samples of one microbatch on all ranks. Throws ConfigError.
  std::int64_t per_microbatch() const;
  /// Throws ConfigError where `global` does not divide evenly.
  BatchSize whole(std::int64_t global) const;
  /// As much of `global` as divides evenly: nothing, where it is smaller than
  /// one microbatch.
  BatchSize rounded_down(std::int64_t global) const;
};

} // namespace cairn::optim
