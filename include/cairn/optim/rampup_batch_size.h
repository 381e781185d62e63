#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

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

/// The global batches of a run from numbers of samples on, the first being 0.
using BatchSteps = std::vector<std::pair<std::int64_t, std::int64_t>>;

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

  /// Megatron's `--step-batch-size-schedule`: each batch of `steps` holds until
  /// the next one begins. There is at least one.
  RampupBatchSize(BatchSteps steps, BatchShare share);

  BatchSize at(std::int64_t consumed_samples) const;

 private:
  std::int64_t global_at(std::int64_t consumed_samples) const;

  std::optional<Rampup> rampup_;
  BatchSteps steps_;
  std::int64_t global_batch_size_;
  BatchShare share_;
  bool decrease_if_needed_;
};

} // namespace cairn::optim
