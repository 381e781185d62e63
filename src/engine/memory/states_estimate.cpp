#include <cairn/engine/states_estimate.h>

#include "engine/build/bucket_limit.h"
#include "engine/memory/states_plan.h"

#include <cairn/optim/rule.h>
#include <fmt/format.h>

namespace cairn::inline engine {

std::string StatesEstimate::describe() const {
  const auto megabytes = [](std::int64_t bytes) {
    return static_cast<double>(bytes) / 1e6;
  };
  return fmt::format(
      "parameters {:.1f} MB, gradients {:.1f} MB, optimizer {:.1f} MB{}: "
      "{:.1f} "
      "MB",
      megabytes(parameters),
      megabytes(gradients),
      megabytes(optimizer),
      buckets > 0 ? fmt::format(", buckets {:.1f} MB", megabytes(buckets)) : "",
      megabytes(sum()));
}

StatesEstimate estimate_states(
    const torch::nn::Module& module,
    const config::Config& config,
    bool on_gpu) {
  const config::DeepSpeedConfig& settings = config.deepspeed;
  const config::DistributedFlags& flags = config.flags.distributed;
  const auto ranks = static_cast<int>(
      config.world_size / (flags.tensor_parallel * flags.pipeline_parallel));
  const zero::Policy policy = zero::policy_of(settings.zero);
  return estimate_of(count_elements(
      module,
      {.ranks = ranks,
       .expert_ranks = ranks / static_cast<int>(flags.expert_parallel),
       .on_gpu = on_gpu,
       .bucket_limit = bucket_limit(settings.zero, policy),
       .optimizer_states = static_cast<int>(
           optim::make_rule(settings.optimizer)->state_names().size()),
       .precision = precision_of(settings, on_gpu),
       .policy = policy}));
}

} // namespace cairn::engine
