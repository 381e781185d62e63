#include "engine/save/model_states.h"

namespace cairn::inline engine {

namespace {

std::int64_t size_of(at::ScalarType type) {
  return static_cast<std::int64_t>(c10::elementSize(type));
}

/// True when the tier is not the memory of the device that computes.
bool away(zero::Tier tier, bool on_gpu) {
  return tier == zero::Tier::nvme || (tier == zero::Tier::cpu && on_gpu);
}

} // namespace

ModelStates model_states_of(const ModelStatesPlan& plan) {
  const zero::Policy& policy = plan.policy;
  const int ranks = policy.shard_ranks > 0 ? policy.shard_ranks : plan.ranks;
  const auto share = [&](bool partitioned) {
    return partitioned ? (plan.elements - plan.expert_elements) / ranks +
            plan.expert_elements / plan.expert_ranks
                       : plan.elements;
  };
  ModelStates states;
  if (!away(policy.parameter_tier, plan.on_gpu)) {
    states.parameters =
        share(policy.partition_parameters) * size_of(plan.precision.compute);
  }
  if (policy.second_copy_ranks > 0) {
    states.parameters += zero::wire_bytes(
        policy.weight_wire,
        plan.elements / policy.second_copy_ranks,
        size_of(plan.precision.compute));
  }
  // Gradients leave the GPU with the optimizer, but at stage 1 whole ones stay.
  const bool gradients_leave =
      plan.on_gpu && policy.partition_gradients && policy.updates_on_cpu();
  if (!gradients_leave) {
    states.gradients =
        share(policy.partition_gradients) * size_of(plan.precision.accumulate);
  }
  // fp32 parameters are the optimizer's weights too.
  const std::int64_t weights = plan.precision.compute == at::kFloat ? 0
      : plan.precision.optimizer.split_weights ? size_of(at::kShort)
                                               : size_of(at::kFloat);
  const std::int64_t optimizer = share(policy.partition_optimizer) *
      (weights +
       plan.precision.optimizer.bytes_of_states(plan.optimizer_states));
  if (!away(policy.optimizer_tier, plan.on_gpu)) {
    states.optimizer = optimizer;
  } else if (policy.states_visit_device) {
    states.optimizer = static_cast<std::int64_t>(
        (1 - policy.offloaded) * static_cast<double>(optimizer));
  }
  return states;
}

} // namespace cairn::engine
