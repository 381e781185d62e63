#pragma once

#include <cstdint>
#include <optional>

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

/// Megatron's `--rampup-batch-size START INCREMENT SAMPLES`: the global batch
/// grows from `start` by `increment` at equal distances over `samples`.
struct Rampup {
  std::int64_t start = 0;
  std::int64_t increment = 0;
  std::int64_t samples = 0;
};

class RampupBatchSize {
 public:
  /// Without a ramp-up the batch is always `global_batch_size`. Where a batch
  /// does not divide evenly, at() throws ConfigError; with `decrease_if_needed`
  /// it takes the largest part that divides.
  RampupBatchSize(
      std::optional<Rampup> rampup,
      std::int64_t global_batch_size,
      BatchShare share,
      bool decrease_if_needed = false);

  BatchSize at(std::int64_t consumed_samples) const;

 private:
  std::int64_t global_at(std::int64_t consumed_samples) const;

  std::optional<Rampup> rampup_;
  std::int64_t global_batch_size_;
  BatchShare share_;
  bool decrease_if_needed_;
};

} // namespace cairn::optim
