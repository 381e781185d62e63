#pragma once

#include <cstdint>

namespace cairn::optim {

/// Samples of one training step.
struct BatchSize {
  std::int64_t global = 0;  ///< by the schedule
  std::int64_t running = 0; ///< the part of it that the ranks can share evenly
  std::int64_t microbatches = 0;

  bool operator==(const BatchSize&) const = default;
};

/// The numbers that a batch is divided by.
struct BatchShare {
  std::int64_t micro_batch_size = 1;
  std::int64_t data_parallel_size = 1;

  /// Samples of one microbatch on all ranks. Throws ConfigError.
  std::int64_t per_microbatch() const;
  /// The batch of exactly `global` samples. Throws ConfigError where `global`
  /// does not divide evenly.
  BatchSize whole(std::int64_t global) const;
  /// The batch of as much of `global` as divides evenly: nothing where `global`
  /// is smaller than one microbatch.
  BatchSize rounded_down(std::int64_t global) const;
};

} // namespace cairn::optim
