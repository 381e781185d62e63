#include "pretrain/plan/flags_schedule.h"

#include "pretrain/run/token_schedule.h"

#include <cairn/base/error.h>
#include <cairn/optim/megatron_schedule.h>

#include <cstdint>
#include <string>

namespace cairn::pretrain {

namespace {

std::shared_ptr<const optim::Schedule> schedule_of(
    const config::Flags& flags,
    std::int64_t batch) {
  return optim::megatron_schedule(
      optim::megatron_schedule_options(flags, batch),
      {{}, {.weight_decay_multiplier = 0}});
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

ClientState schedule_description(const config::Config& config) {
  if (config.deepspeed.scheduler.type) {
    return {};
  }
  const optim::MegatronScheduleOptions options =
      optim::megatron_schedule_options(
          config.flags,
          config.deepspeed.batch->train);
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

std::shared_ptr<const optim::Schedule> flags_schedule(
    const config::Config& config) {
  if (config.deepspeed.scheduler.type) {
    return nullptr;
  }
  return schedule_of(config.flags, config.deepspeed.batch->train);
}

std::shared_ptr<const optim::Schedule> flags_schedule(
    const config::Config& config,
    const RunPlan& plan) {
  if (config.deepspeed.scheduler.type || !counts_tokens(config.flags) ||
      (!plan.curriculum && !plan.random_ltd)) {
    return flags_schedule(config);
  }
  return asked_for_samples(
      schedule_of(in_tokens(config.flags, plan), plan.eval_batch),
      plan.tokens);
}

} // namespace cairn::pretrain
