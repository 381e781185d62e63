#include "engine/build/prepare_model.h"

#include <cairn/base/error.h>
#include <cairn/nn/later_values.h>
#include <fmt/format.h>

#include <algorithm>

namespace cairn::inline engine {

namespace {

/// Moves and casts the model. Module::to() would cast integers as well, such as
/// BatchNorm's counters.
void bring(const Job& job, torch::nn::Module& module) {
  module.to(job.device);
  const auto cast = [&](at::Tensor& tensor) {
    if (job.precision.compute == at::kFloat ||
        !at::isFloatingType(tensor.scalar_type())) {
      return;
    }
    tensor.set_data(
        nn::is_without_memory(tensor)
            ? nn::without_memory(
                  tensor.sizes(),
                  tensor.options().dtype(job.precision.compute))
            : tensor.to(job.precision.compute));
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
    if (!shares[i].expert || shares[i].box.empty()) {
      continue; // an expert under a name of its own, which other ranks have not
    }
    const std::int64_t here = trained.parameters.tensors[i].size(0);
    if (here * degree != shares[i].whole[0]) {
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

/// Refuses parameters that have neither memory nor values to come.
void require_values(
    const ModelParameters& parameters,
    const nn::LaterValues* later) {
  for (std::size_t i = 0; i < parameters.names.size(); ++i) {
    const bool comes = later != nullptr && later->has(parameters.names[i]);
    if (nn::is_without_memory(parameters.tensors[i]) && !comes) {
      throw UsageError(
          {.what = "a parameter was built without memory, and nothing has its "
                   "values",
           .where = parameters.names[i],
           .remedy = "pass initialize() the .later_values that the model was "
                     "built with"});
    }
  }
}

} // namespace

void prepare_model(
    const Job& job,
    const nn::LaterValues* later,
    TrainedModel& trained) {
  torch::nn::Module& module = trained.model.module();
  bring(job, module);
  trained.parameters = parameters_of(module);
  if (trained.parameters.tensors.empty()) {
    throw UsageError(
        {.what = "the model has no parameters",
         .remedy = "register them with register_parameter or register_module"});
  }
  require_values(trained.parameters, later);
  trained.shares = job.mesh ? share_model(module, trained.parameters, *job.mesh)
                            : unshared(module, trained.parameters);
  check_experts(job, trained);
}

} // namespace cairn::engine
