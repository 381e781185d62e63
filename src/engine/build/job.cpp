#include "engine/build/job.h"

#include "zero/internal/group_plan.h"

#include <utility>

namespace cairn::inline engine {

namespace {

/// The configuration's policy, with the facts that only a running job knows.
zero::Policy policy_for(
    const config::ZeroConfig& config,
    const distributed::ProcessGroup& group,
    const distributed::Environment& environment) {
  zero::Policy policy = zero::policy_of(config);
  if (config.mics_hierarchical_params_gather) {
    policy.gather_ranks = zero::gather_ranks(
        group.global_ranks(),
        policy.shard_ranks,
        environment.local_world_size);
  }
  return policy;
}

} // namespace

Job::Job(
    config::Config configuration,
    distributed::World joined,
    std::optional<distributed::ProcessMesh> shape,
    const Logger& log)
    : config(std::move(configuration)),
      world(std::move(joined)),
      mesh(std::move(shape)),
      group(mesh ? mesh->data_context() : world.group()),
      logger(log),
      device(world.device_name()),
      precision(precision_of(deepspeed(), device.is_cuda())),
      policy(policy_for(deepspeed().zero, group, world.environment())),
      groups(zero::make_rank_groups(
          group,
          mesh ? mesh->along(distributed::Axis::expert_data) : group,
          policy)) {}

} // namespace cairn::engine
