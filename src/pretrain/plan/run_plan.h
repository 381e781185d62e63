#pragma once

#include "pretrain/run/token_count.h"

#include <cairn/config/config.h>
#include <cairn/data/data_selection.h>
#include <cairn/optim/megatron_schedule.h>
#include <cairn/optim/rampup_batch_size.h>

#include <cstdint>
#include <optional>

namespace cairn::pretrain {

/// The length of a run and its batches.
struct RunPlan {
  std::int64_t iterations = 0;
  std::int64_t samples = 0; ///< consumed at the end of the run
  std::int64_t sequence_length = 0;
  optim::RampupBatchSize batch_size;
  /// The growing length of samples, if they are shorter at first.
  std::optional<config::CurriculumConfig> curriculum{};
  /// The growing number of tokens that some layers compute; not with a
  /// curriculum.
  std::optional<config::RandomLtdConfig> random_ltd{};
  TokenCount tokens; ///< tokens that are trained on
  /// The checkpoint's schedule, if --use-checkpoint-opt_param-scheduler takes
  /// it.
  std::optional<optim::MegatronScheduleOptions> stored_schedule{};

  std::int64_t eval_iterations = 0;
  std::int64_t eval_interval = 0;
  /// Samples of every evaluation step: the batch after any ramp-up.
  std::int64_t eval_batch = 0;

  /// The samples that the three splits need.
  data::SampleCounts samples_needed() const;
  /// Tokens of a sample in a step, counted from 1. Where layers drop tokens, it
  /// is the average over the layers, as Megatron-DeepSpeed counts them.
  std::int64_t length_at(std::int64_t step) const;
  /// Tokens of a sample that the dropping layers compute.
  std::optional<std::int64_t> kept_at(std::int64_t step) const;
};

/// The progress of a run.
struct RunStand {
  std::int64_t steps = 0;
  std::int64_t samples = 0;
  std::int64_t tokens = 0;
};
/// Counts the tokens of the plan's steps after `from`.
TokenCount count_tokens(const RunPlan& plan, const RunStand& from);

/// Throws ConfigError if the length of the run is not given.
RunPlan plan_run(const config::Config& config);

} // namespace cairn::pretrain
