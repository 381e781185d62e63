#include "cli/launch/run_length.h"

#include "cli/program/command_line.h"

#include <cairn/base/error.h>

#include <fmt/core.h>

namespace cairn::cli {

void RunLength::add_flags(CLI::App& app) {
  app.add_option("--train-samples", train_samples, "to train on")
      ->check(at_least(0));
  app.add_option(
         "--train-iters",
         train_iters,
         "steps of training instead; neither: one epoch")
      ->check(at_least(0))
      ->excludes("--train-samples");
  app.add_option("--global-batch-size", global_batch_size, "samples of a step")
      ->check(at_least(1));
  app.add_option("--eval-iters", eval_iters, "batches per evaluation")
      ->check(at_least(0))
      ->capture_default_str();
  app.add_option("--eval-interval", eval_interval, "steps between evaluations")
      ->check(at_least(1))
      ->capture_default_str();
  app.add_flag(
      "--full-validation",
      full_validation,
      "one epoch for validation");
}

void RunLength::check_flags(const CLI::App& app) const {
  for (const char* flag :
       {"--global-batch-size", "--eval-iters", "--eval-interval"}) {
    if (!train_samples && !train_iters && app.count(flag) > 0) {
      throw ConfigError(
          {.what = fmt::format(
               "{} changes nothing without the length of the run",
               flag),
           .remedy = "give --train-samples or --train-iters as well, or leave "
                     "it out for one epoch"});
    }
  }
}

data::SampleCounts RunLength::sample_counts(bool evaluates) const {
  if (!train_samples && !train_iters) {
    return {};
  }
  data::SampleCounts counts;
  if (train_samples && (!evaluates || eval_iters == 0)) {
    counts = {*train_samples, 0, 0};
  } else {
    if (global_batch_size < 1) {
      throw ConfigError(
          {.what = "--global-batch-size is needed to count samples",
           .remedy = "give it, or neither --train-samples nor --train-iters "
                     "for one epoch"});
    }
    const std::int64_t iterations =
        train_samples ? *train_samples / global_batch_size : *train_iters;
    const std::int64_t evaluations =
        (iterations / eval_interval + 1) * eval_iters;
    counts = {
        train_samples ? *train_samples : iterations * global_batch_size,
        evaluations * global_batch_size,
        eval_iters * global_batch_size};
  }
  if (full_validation) {
    counts[1].reset();
  }
  return counts;
}

} // namespace cairn::cli
