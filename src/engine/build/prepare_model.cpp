#include "engine/build/prepare_model.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>

namespace cairn::inline engine {

namespace {

/// Moves and casts the model. Module::to() would cast integers as well, such as
/// BatchNorm's counters.
void bring(const Job& job, torch::nn::Module& module) {
  module.to(job.device);
  const auto cast = [&](at::Tensor& tensor) {
    if (job.precision.compute != at::kFloat &&
        at::isFloatingType(tensor.scalar_type())) {
      tensor.set_data(tensor.to(job.precision.compute));
    }
  };
  for (at::Tensor& parameter : module.parameters()) {
    cast(parameter);
  }
  for (at::Tensor& buffer : module.buffers()) {
    cast(buffer);
    job.group.broadcast(buffer, 0).wait();
  }
}

/// True when all ranks share every bucket, whose numbers travel as they are.
bool is_plain(const zero::Policy& policy) {
  zero::Policy plain = policy;
  plain.shard_ranks = plain.second_copy_ranks = plain.gather_ranks = 0;
  plain.weight_wire = plain.frozen_wire = plain.gradient_wire =
      zero::Wire::exact;
  return plain == policy;
}

void check_experts(const Job& job, const TrainedModel& trained) {
  const auto& shares = trained.shares.parameters;
  if (std::ranges::none_of(shares, &ParameterShare::expert)) {
    return;
  }
  if (!is_plain(job.policy)) {
    throw ConfigError(
        {.what = "experts are shared out over ranks, which ZeRO++ and MiCS "
                 "would share out in another way",
         .where = "zero_optimization",
         .remedy = "leave out mics_shard_size, zero_hpz_partition_size and "
                   "zero_quantized_…"});
  }
  if (!job.mesh) {
    throw UsageError(
        {.what = "the model's experts are shared out, but nobody says over "
                 "which ranks",
         .where = "initialize()",
         .remedy = "pass .mesh, with the degree `expert`"});
  }
  const std::int64_t degree = job.mesh->degree(distributed::Axis::expert);
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const std::int64_t here =
        shares[i].expert ? trained.parameters.tensors[i].size(0) : 0;
    if (shares[i].expert && here * degree != shares[i].whole[0]) {
      throw UsageError(
          {.what =
               "the mesh shares out experts over other ranks than the model",
           .where = trained.parameters.names[i],
           .values = fmt::format(
               "{} of {} experts here, expert degree {}",
               here,
               shares[i].whole[0],
               degree),
           .remedy =
               "build the model with the group of the mesh's expert axis"});
    }
  }
}

} // namespace

void prepare_model(const Job& job, TrainedModel& trained) {
  torch::nn::Module& module = trained.model.module();
  bring(job, module);
  trained.parameters = parameters_of(module);
  if (trained.parameters.tensors.empty()) {
    throw UsageError(
        {.what = "the model has no parameters",
         .remedy = "register them with register_parameter or register_module"});
  }
  trained.shares = job.mesh ? share_model(module, trained.parameters, *job.mesh)
                            : unshared(module, trained.parameters);
  check_experts(job, trained);
}

} // namespace cairn::engine
