#include "pretrain/flags_schedule.h"

#include <cairn/optim/megatron_schedule.h>

namespace cairn::pretrain {

std::shared_ptr<const optim::Schedule> flags_schedule(
    const config::Config& config) {
  if (config.deepspeed.scheduler.type) {
    return nullptr;
  }
  return optim::megatron_schedule(
      optim::megatron_schedule_options(
          config.flags,
          config.deepspeed.batch->train),
      {{}, {.weight_decay_multiplier = 0}});
}

} // namespace cairn::pretrain
