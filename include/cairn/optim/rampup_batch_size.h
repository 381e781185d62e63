#pragma once

#include <cairn/optim/batch_size.h>

#include <optional>

namespace cairn::optim {

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
