#pragma once

#include "pretrain/run/token_count.h"

#include <cairn/config/config.h>
#include <cairn/data/blend.h>
#include <cairn/optim/rampup_batch_size.h>

#include <cstdint>
#include <optional>

namespace cairn::pretrain {

/// How long a run is, and with what batches.
struct RunPlan {
  std::int64_t iterations = 0;
  std::int64_t samples = 0; ///< consumed when it is done
  std::int64_t sequence_length = 0;
  optim::RampupBatchSize batch_size;
  /// Samples are shorter at first.
  std::optional<config::CurriculumConfig> curriculum{};
  /// Some layers compute fewer tokens at first; not beside a curriculum.
  std::optional<config::RandomLtdConfig> random_ltd{};
  TokenCount tokens; ///< that are trained on

  std::int64_t eval_iterations = 0;
  std::int64_t eval_interval = 0;
  /// Of every evaluation step: the batch after any ramp-up.
  std::int64_t eval_batch = 0;

  /// What the three splits have to offer.
  data::SampleCounts samples_needed() const;
  /// Tokens of a sample in a step, the first being 1; where layers drop some,
  /// those of an average layer, as Megatron-DeepSpeed counts them.
  std::int64_t length_at(std::int64_t step) const;
  /// What layers that drop tokens compute of a sample.
  std::optional<std::int64_t> kept_at(std::int64_t step) const;
};

/// Where a run stands.
struct RunStand {
  std::int64_t steps = 0;
  std::int64_t samples = 0;
  std::int64_t tokens = 0;
};
/// Of the plan's steps behind there.
TokenCount count_tokens(const RunPlan& plan, const RunStand& from);

/// Throws ConfigError if the length is not said.
RunPlan plan_run(const config::Config& config);

} // namespace cairn::pretrain
