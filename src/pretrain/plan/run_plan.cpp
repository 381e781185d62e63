#include "pretrain/plan/run_plan.h"

#include "config/internal/batch_steps.h"
#include "config/internal/curriculum_length.h"

#include <cairn/base/error.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

namespace cairn::pretrain {

namespace {

std::optional<optim::Rampup> rampup_of(const config::TrainingFlags& flags) {
  const auto& numbers = flags.rampup_batch_size;
  if (numbers.empty()) {
    return std::nullopt;
  }
  return optim::Rampup{
      .start = numbers.at(0),
      .increment = numbers.at(1),
      .samples = numbers.at(2)};
}

optim::RampupBatchSize batches_of(const config::Config& config) {
  const config::BatchConfig& batch = *config.deepspeed.batch;
  const optim::BatchShare share{
      .micro_batch_size = batch.micro,
      .data_parallel_size = batch.data_parallel};
  optim::BatchSteps steps;
  for (const auto& [samples, size] : config::batch_steps(config.flags)) {
    steps.emplace_back(samples, size);
  }
  if (!steps.empty()) {
    return {std::move(steps), share};
  }
  return {rampup_of(config.flags.training), batch.train, share};
}

} // namespace

data::SampleCounts RunPlan::samples_needed() const {
  const std::int64_t evaluations = iterations / eval_interval + 1;
  return {
      samples,
      evaluations * eval_iterations * eval_batch,
      eval_iterations * eval_batch};
}

std::optional<std::int64_t> RunPlan::kept_at(std::int64_t step) const {
  return !random_ltd
      ? std::nullopt
      : std::optional(std::min(
            config::curriculum_length(random_ltd->schedule, step - 1),
            sequence_length));
}

std::int64_t RunPlan::length_at(std::int64_t step) const {
  if (random_ltd) {
    const std::int64_t layers = *random_ltd->total_layers;
    const std::int64_t dropping = std::ssize(random_ltd->layers);
    const std::int64_t whole = sequence_length * (layers - dropping);
    return (whole + *kept_at(step) * dropping) / layers;
  }
  return curriculum ? config::curriculum_length(*curriculum, step)
                    : sequence_length;
}

TokenCount count_tokens(const RunPlan& plan, const RunStand& from) {
  TokenCount count(from.samples, from.tokens, plan.length_at(from.steps + 1));
  if (!plan.curriculum && !plan.random_ltd) {
    return count;
  }
  std::int64_t samples = from.samples;
  for (std::int64_t step = from.steps + 1; step <= plan.iterations; ++step) {
    count.change(samples, plan.length_at(step));
    samples += plan.batch_size.at(samples).running;
  }
  return count;
}

RunPlan plan_run(const config::Config& config) {
  const config::Flags& flags = config.flags;
  const config::BatchConfig& batch = *config.deepspeed.batch;
  const std::int64_t sequence_length =
      flags.data.seq_length.value_or(flags.data.encoder_seq_length.value_or(0));
  if (sequence_length < 1) {
    throw ConfigError(
        {.what = "the length of a sample is not said",
         .where = "--seq-length",
         .remedy = "give it, such as --seq-length 1024"});
  }
  RunPlan plan{
      .sequence_length = sequence_length,
      .batch_size = batches_of(config),
      .tokens = TokenCount(sequence_length),
      .eval_iterations = flags.validation.eval_iters,
      .eval_interval = flags.validation.eval_interval,
      .eval_batch = batch.train};
  if (config.deepspeed.curriculum.enabled) {
    plan.curriculum = config.deepspeed.curriculum;
  }
  if (config.deepspeed.random_ltd.is_on()) {
    plan.random_ltd = config.deepspeed.random_ltd;
  }
  plan.tokens = TokenCount(plan.length_at(1));
  const config::TrainingFlags& length = flags.training;
  if (!length.train_iters && !length.train_samples && !length.train_tokens) {
    throw ConfigError(
        {.what = "the length of the run is not said",
         .where = "--train-iters",
         .remedy = "give --train-iters, --train-samples or --train-tokens"});
  }
  const auto goes_on = [&] {
    if (length.train_tokens) {
      return plan.tokens.at(plan.samples) < *length.train_tokens;
    }
    return length.train_samples ? plan.samples < *length.train_samples
                                : plan.iterations < *length.train_iters;
  };
  while (goes_on()) {
    ++plan.iterations;
    plan.tokens.change(plan.samples, plan.length_at(plan.iterations));
    plan.samples += plan.batch_size.at(plan.samples).running;
  }
  return plan;
}

} // namespace cairn::pretrain
