#include <cairn/engine/states_estimate.h>

#include "engine/build/bucket_limit.h"
#include "engine/memory/states_plan.h"

#include <cairn/optim/rule.h>
#include <fmt/format.h>

namespace cairn::inline engine {

namespace {

std::string amount(std::int64_t bytes) {
  const auto number = static_cast<double>(bytes);
  return bytes != 0 && bytes < 1'000'000
      ? fmt::format("{:.1f} kB", number / 1e3)
      : fmt::format("{:.1f} MB", number / 1e6);
}

} // namespace

std::string StatesEstimate::describe() const {
  return fmt::format(
      "parameters {}, gradients {}, optimizer {}{}: {}",
      amount(parameters),
      amount(gradients),
      amount(optimizer),
      buckets > 0 ? ", buckets " + amount(buckets) : "",
      amount(sum()));
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
