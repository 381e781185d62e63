#include "pretrain/run_plan.h"

#include <cairn/base/error.h>

#include <optional>

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

std::optional<std::int64_t> wanted_samples(
    const config::TrainingFlags& flags,
    std::int64_t sequence_length) {
  if (flags.train_tokens) { // whole sequences
    return (*flags.train_tokens + sequence_length - 1) / sequence_length;
  }
  return flags.train_samples;
}

} // namespace

data::SampleCounts RunPlan::samples_needed() const {
  const std::int64_t evaluations = iterations / eval_interval + 1;
  return {
      samples,
      evaluations * eval_iterations * eval_batch,
      eval_iterations * eval_batch};
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
      .batch_size = optim::RampupBatchSize(
          rampup_of(flags.training),
          batch.train,
          {.micro_batch_size = batch.micro,
           .data_parallel_size = batch.data_parallel}),
      .eval_iterations = flags.validation.eval_iters,
      .eval_interval = flags.validation.eval_interval,
      .eval_batch = batch.train};
  const auto wanted = wanted_samples(flags.training, sequence_length);
  if (!wanted && !flags.training.train_iters) {
    throw ConfigError(
        {.what = "the length of the run is not said",
         .where = "--train-iters",
         .remedy = "give --train-iters, --train-samples or --train-tokens"});
  }
  const auto goes_on = [&] {
    return wanted ? plan.samples < *wanted
                  : plan.iterations < *flags.training.train_iters;
  };
  while (goes_on()) {
    plan.samples += plan.batch_size.at(plan.samples).running;
    ++plan.iterations;
  }
  return plan;
}

} // namespace cairn::pretrain
