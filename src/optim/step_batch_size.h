#pragma once

#include <cairn/optim/rampup_batch_size.h>

#include <optional>
#include <string_view>
#include <vector>

namespace cairn::optim {

/// Megatron's `--step-batch-size-schedule "0:768 250B:1536"`: each entry is a
/// number of tokens (of samples, without a sequence length) and the global
/// batch size from then on. K, M, B and T stand for powers of a thousand.
class StepBatchSize {
 public:
  struct Step {
    std::int64_t from_samples = 0;
    std::int64_t global = 0;
    bool operator==(const Step&) const = default;
  };

  /// Throws ConfigError.
  StepBatchSize(
      std::string_view schedule,
      BatchShare share,
      std::optional<std::int64_t> sequence_length = std::nullopt);

  const std::vector<Step>& steps() const { return steps_; }
  /// Throws ConfigError where the batch of that time does not divide evenly.
  BatchSize at(std::int64_t consumed_samples) const;

 private:
  std::vector<Step> steps_;
  BatchShare share_;
};

} // namespace cairn::optim
