#include "pretrain/plan/flags_schedule.h"

#include "pretrain/run/token_schedule.h"

#include <cairn/optim/megatron_schedule.h>

namespace cairn::pretrain {

namespace {

std::shared_ptr<const optim::Schedule> schedule_of(
    const config::Flags& flags,
    std::int64_t batch) {
  return optim::megatron_schedule(
      optim::megatron_schedule_options(flags, batch),
      {{}, {.weight_decay_multiplier = 0}});
}

} // namespace

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
