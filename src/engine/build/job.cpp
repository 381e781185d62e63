#include "engine/build/job.h"

#include "zero/internal/group_plan.h"
#include "zero/internal/update_speeds.h"

#include <ATen/ops/tensor.h>
#include <cairn/base/error.h>
#include <cairn/optim/rule.h>
#include <fmt/core.h>

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

/// True when the states of the optimizer should visit the device, because the
/// ranks updated them faster in this way.
bool visit_is_faster(const Job& job) {
  const config::OffloadOptimizerConfig& offload =
      *job.deepspeed().zero.offload_optimizer;
  const auto rule = optim::make_rule(job.deepspeed().optimizer);
  const zero::UpdateSpeeds here = zero::measure_update_speeds(
      *rule,
      optim::default_values(job.deepspeed().optimizer),
      {.device = job.device,
       .types = job.precision.optimizer,
       .gradients = job.precision.accumulate,
       .pin = offload.pin_memory});
  at::Tensor speeds = at::tensor(
      {here.on_cpu, here.on_device},
      at::TensorOptions(at::kDouble).device(job.device));
  job.world.group().all_reduce(speeds, distributed::ReduceOp::min).wait();
  const double on_cpu = speeds[0].item<double>();
  const double on_device = speeds[1].item<double>();
  if (job.speaks()) {
    job.logger.info(
        "offloaded states are updated on the {}: {:.2f} billion parameters a "
        "second on the CPU, {:.2f} on the GPU",
        on_device > on_cpu ? "GPU" : "CPU",
        on_cpu / 1e9,
        on_device / 1e9);
  }
  return on_device > on_cpu;
}

/// True when the configuration leaves the place of the update to a measurement
/// and there are two places.
bool measures_update(const Job& job) {
  const auto& offload = job.deepspeed().zero.offload_optimizer;
  return offload && offload->update_on == config::OffloadUpdate::measured &&
      job.policy.updates_on_cpu() && !job.device.is_cpu();
}

/// True when parameters are gathered while gradients are reduced (stage 3), or
/// while a forward pass runs.
bool gathers_beside(const config::Config& config, const zero::Policy& policy) {
  return policy.partition_parameters ||
      (config.flags.distributed.overlap_param_gather &&
       policy.partition_optimizer);
}

std::shared_ptr<distributed::BufferPool> make_buffers(
    const config::Config& config,
    const zero::RankGroups& groups,
    const zero::RankGroups& gathering) {
  if (!config.flags.distributed.nccl_ub || groups.all.size() == 1) {
    return nullptr;
  }
  auto pool = distributed::make_buffer_pool(
      {groups.all,
       groups.shards,
       groups.replicas,
       groups.inner,
       groups.outer,
       groups.experts,
       gathering.shards,
       gathering.inner,
       gathering.outer,
       gathering.experts});
  if (!pool) {
    throw ConfigError(
        {.what = "buffers are registered with NCCL, which this job does not "
                 "use",
         .where = "--use-nccl-ub",
         .values = fmt::format("backend {}", groups.all.backend()),
         .remedy = "leave the flag out, or train on GPUs with NCCL"});
  }
  return pool;
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
          policy)),
      gather_groups(
          gathers_beside(config, policy) ? zero::second_groups(groups)
                                         : groups),
      buffers(make_buffers(config, groups, gather_groups)) {
  if (measures_update(*this)) {
    policy.states_visit_device = visit_is_faster(*this);
  }
}

} // namespace cairn::engine
