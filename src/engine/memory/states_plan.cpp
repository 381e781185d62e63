#include "engine/memory/states_plan.h"

#include "engine/build/model_parameters.h"
#include "zero/internal/bucket_limit.h"
#include "zero/internal/layout.h"

#include <cairn/nn/parameter_slices.h>

#include <algorithm>
#include <string>
#include <vector>

namespace cairn::inline engine {

ModelStatesPlan count_elements(
    const torch::nn::Module& module,
    ModelStatesPlan plan) {
  const std::vector<std::string> experts = nn::expert_parameters(module);
  const ModelParameters parameters = parameters_of(module);
  for (std::size_t i = 0; i < parameters.names.size(); ++i) {
    const std::int64_t elements = parameters.tensors[i].numel();
    plan.elements += elements;
    if (std::ranges::find(experts, parameters.names[i]) != experts.end()) {
      plan.expert_elements += elements;
    }
  }
  return plan;
}

ModelStatesPlan states_plan(const Job& job, const TrainedModel& trained) {
  return count_elements(
      trained.model.module(),
      {.ranks = job.group.size(),
       .expert_ranks = job.groups.experts.size(),
       .on_gpu = job.device.is_cuda(),
       .bucket_limit = zero::bucket_limit(job.deepspeed().zero, job.policy),
       .optimizer_states = trained.optimizer_states,
       .precision = job.precision,
       .policy = job.policy});
}

StatesEstimate estimate_of(const ModelStatesPlan& plan) {
  const ModelStates states = model_states_of(plan);
  const auto wire =
      static_cast<std::int64_t>(c10::elementSize(plan.precision.communicate));
  return {
      .parameters = states.parameters,
      .gradients = states.gradients,
      .optimizer = states.optimizer,
      .buckets = plan.ranks > 1 ? wire *
              std::min(plan.elements,
                       zero::bucket_capacity(
                           plan.elements,
                           plan.bucket_limit,
                           plan.ranks))
                                : 0};
}

} // namespace cairn::engine
