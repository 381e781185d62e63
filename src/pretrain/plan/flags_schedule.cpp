#include "pretrain/plan/flags_schedule.h"

#include "pretrain/plan/stored_schedule.h"
#include "pretrain/run/token_schedule.h"

#include <cairn/base/error.h>
#include <cairn/optim/megatron_schedule.h>
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace cairn::pretrain {

namespace {

std::shared_ptr<const optim::Schedule> schedule_of(
    const optim::MegatronScheduleOptions& options,
    const config::LearningRateFlags& flags) {
  std::vector<optim::MegatronGroup> groups{{}, {.weight_decay_multiplier = 0}};
  if (flags.decoupled_lr) {
    groups.push_back(
        {.max_lr = flags.decoupled_lr, .min_lr = flags.decoupled_min_lr});
  }
  return optim::megatron_schedule(options, std::move(groups));
}

bool follows_tokens(const config::Config& config, const RunPlan& plan) {
  return counts_tokens(config.flags) && (plan.curriculum || plan.random_ltd);
}

optim::MegatronScheduleOptions options_of(const config::Config& config) {
  return optim::megatron_schedule_options(
      config.flags,
      config.deepspeed.batch->train);
}

/// Refuses a schedule that --use-checkpoint-opt_param-scheduler cannot find.
[[noreturn]] void fail_to_take(std::string what, std::string remedy) {
  throw ConfigError(
      {.what = std::move(what),
       .where = "--use-checkpoint-opt_param-scheduler",
       .remedy = std::move(remedy)});
}

std::string name_of(config::LrDecayStyle style) {
  using enum config::LrDecayStyle;
  switch (style) {
    case constant:
      return "constant";
    case linear:
      return "linear";
    case cosine:
      return "cosine";
    case inverse_square_root:
      return "inverse-square-root";
    case wsd:
      return "WSD";
  }
  throw InternalError({.what = "no such style"});
}

std::string name_of(config::WeightDecayStyle style) {
  using enum config::WeightDecayStyle;
  switch (style) {
    case constant:
      return "constant";
    case linear:
      return "linear";
    case cosine:
      return "cosine";
  }
  throw InternalError({.what = "no such style"});
}

} // namespace

ClientState schedule_description(
    const config::Config& config,
    const RunPlan& plan) {
  if (config.deepspeed.scheduler.type) {
    return {};
  }
  const optim::MegatronScheduleOptions options =
      plan.stored_schedule.value_or(options_of(config));
  return {
      {"max_lr", options.max_lr},
      {"min_lr", options.min_lr},
      {"lr_warmup_steps", static_cast<std::int64_t>(options.warmup_samples)},
      {"lr_decay_steps", options.decay_samples},
      {"lr_decay_style", name_of(options.decay_style)},
      {"start_wd", options.start_weight_decay},
      {"end_wd", options.end_weight_decay},
      {"wd_incr_steps", options.weight_decay_samples},
      {"wd_incr_style", name_of(options.weight_decay_style)}};
}

std::string settle_schedule(const config::Config& config, RunPlan& plan) {
  const config::LearningRateFlags& flags = config.flags.learning_rate;
  const bool from_checkpoint = flags.use_checkpoint_scheduler;
  if (config.deepspeed.scheduler.type) {
    if (from_checkpoint) {
      fail_to_take(
          "the JSON file has a schedule of its own",
          "leave out the flag, or \"scheduler\" in the file");
    }
    return {};
  }
  if (follows_tokens(config, plan)) {
    if (from_checkpoint) {
      fail_to_take(
          "lengths in tokens, with a curriculum or random-LTD, are of the "
          "flags alone",
          "leave it out");
    }
    return {};
  }
  const auto stored = stored_schedule(config, options_of(config));
  if (!stored) {
    if (from_checkpoint && config.flags.checkpointing.load) {
      return "--use-checkpoint-opt_param-scheduler finds no schedule in a "
             "checkpoint: that of the flags is taken";
    }
    return {};
  }
  if (stored->differences.empty()) {
    return {};
  }
  if (from_checkpoint) {
    plan.stored_schedule = stored->options;
    return fmt::format(
        "the checkpoint's schedule is taken, not that of the flags: {}",
        stored->differences);
  }
  return fmt::format(
      "the schedule of the flags is taken, not the checkpoint's: {}{}",
      stored->differences,
      flags.override_scheduler
          ? ""
          : " (--use-checkpoint-opt_param-scheduler takes the checkpoint's)");
}

std::shared_ptr<const optim::Schedule> flags_schedule(
    const config::Config& config) {
  if (config.deepspeed.scheduler.type) {
    return nullptr;
  }
  return schedule_of(options_of(config), config.flags.learning_rate);
}

std::shared_ptr<const optim::Schedule> flags_schedule(
    const config::Config& config,
    const RunPlan& plan) {
  if (plan.stored_schedule) {
    return schedule_of(*plan.stored_schedule, config.flags.learning_rate);
  }
  if (config.deepspeed.scheduler.type || !follows_tokens(config, plan)) {
    return flags_schedule(config);
  }
  return asked_for_samples(
      schedule_of(
          optim::megatron_schedule_options(
              in_tokens(config.flags, plan),
              plan.eval_batch),
          config.flags.learning_rate),
      plan.tokens);
}

} // namespace cairn::pretrain
