#include <cairn/engine/states_estimate.h>

#include "engine/memory/states_plan.h"
#include "zero/internal/bucket_limit.h"

#include <cairn/base/error.h>
#include <cairn/optim/rule.h>
#include <fmt/format.h>

#include <limits>

namespace cairn::inline engine {

namespace {

std::string amount(std::int64_t bytes) {
  const auto number = static_cast<double>(bytes);
  return bytes != 0 && bytes < 1'000'000
      ? fmt::format("{:.1f} kB", number / 1e3)
      : fmt::format("{:.1f} MB", number / 1e6);
}

/// The ranks that share the states, of which `expert_parallel` divide experts.
int data_ranks(const config::Config& config) {
  const config::DistributedFlags& flags = config.flags.distributed;
  const std::int64_t model_ranks =
      flags.tensor_parallel * flags.pipeline_parallel;
  const std::int64_t ranks = config.world_size / model_ranks;
  if (ranks < 1 || ranks > std::numeric_limits<int>::max() ||
      config.world_size % model_ranks != 0 ||
      ranks % flags.expert_parallel != 0) {
    throw UsageError(
        {.what = "so many ranks cannot divide the model",
         .where = "the estimate of a training's memory",
         .values = fmt::format(
             "{} ranks, tensor {}, pipeline {}, experts {}",
             config.world_size,
             flags.tensor_parallel,
             flags.pipeline_parallel,
             flags.expert_parallel),
         .remedy = "give a multiple of these degrees"});
  }
  return static_cast<int>(ranks);
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
  const int ranks = data_ranks(config);
  const zero::Policy policy = zero::policy_of(settings.zero);
  return estimate_of(count_elements(
      module,
      {.ranks = ranks,
       .expert_ranks = ranks / static_cast<int>(flags.expert_parallel),
       .on_gpu = on_gpu,
       .bucket_limit = zero::bucket_limit(settings.zero, policy),
       .optimizer_states = static_cast<int>(
           optim::make_rule(settings.optimizer)->state_names().size()),
       .precision = precision_of(settings, on_gpu),
       .policy = policy}));
}

} // namespace cairn::engine
