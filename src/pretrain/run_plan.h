#pragma once

#include <cairn/config/config.h>
#include <cairn/data/blend.h>
#include <cairn/optim/rampup_batch_size.h>

#include <cstdint>

namespace cairn::pretrain {

/// How long a run is, and with what batches.
struct RunPlan {
  std::int64_t iterations = 0;
  std::int64_t samples = 0; ///< consumed when it is done
  std::int64_t sequence_length = 0;
  optim::RampupBatchSize batch_size;

  std::int64_t eval_iterations = 0;
  std::int64_t eval_interval = 0;
  /// Of every evaluation step: the batch after any ramp-up.
  std::int64_t eval_batch = 0;

  /// What the three splits have to offer.
  data::SampleCounts samples_needed() const;
};

/// Throws ConfigError if the length is not said.
RunPlan plan_run(const config::Config& config);

} // namespace cairn::pretrain
