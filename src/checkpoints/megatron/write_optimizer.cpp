#include "checkpoints/megatron/write_optimizer.h"

#include "checkpoints/megatron/optimizer_contents.h"
#include "checkpoints/tensors/lazy_operations.h"
#include "checkpoints/tensors/named_tensors.h"
#include "checkpoints/tensors/parameter_tensors.h"
#include "checkpoints/torch/torch_types.h"

#include <ATen/Functions.h>
#include <c10/util/accumulate.h>
#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cairn::checkpoints::megatron {

namespace {

using Members = std::vector<PythonValue::Member>;

/// A rank's parameters in the optimizer's order: matrices, which decay, in the
/// order of the modules, then vectors.
struct OptimizerOrder {
  std::vector<std::string> matrices;
  std::vector<std::string> vectors;
};

OptimizerOrder order_of(const RankModel& model) {
  OptimizerOrder order;
  for (const auto& [path, tensor] : model.tensors()) {
    (tensor.shape.size() > 1 ? order.matrices : order.vectors).push_back(path);
  }
  return order;
}

PythonValue option(
    const MegatronOptimizer& optimizer,
    const char* name,
    const PythonValue& otherwise) {
  return optimizer.options.find(name).value_or(otherwise);
}

PythonValue scheduled(
    const MegatronOptimizer& optimizer,
    const char* name,
    const PythonValue& otherwise) {
  return optimizer.schedule.find(name).value_or(otherwise);
}

/// A parameter group. Megatron finds its own groups by the first members.
Members group_of(const MegatronOptimizer& optimizer, bool decays) {
  const PythonValue lr = option(optimizer, "lr", PythonValue::real(0));
  return {
      {"is_expert_parallel", PythonValue::boolean(false)},
      {"default_config", PythonValue::boolean(true)},
      {"wd_mult", PythonValue::real(decays ? 1 : 0)},
      {"lr_mult", PythonValue::real(1)},
      {"is_decoupled_lr", PythonValue::boolean(false)},
      {"max_lr", scheduled(optimizer, "max_lr", lr)},
      {"min_lr", scheduled(optimizer, "min_lr", PythonValue::real(0))},
      {"lr", lr},
      {"bias_correction", PythonValue::boolean(true)},
      {"betas",
       option(
           optimizer,
           "betas",
           PythonValue::tuple(
               {PythonValue::real(0.9), PythonValue::real(0.999)}))},
      {"eps", option(optimizer, "eps", PythonValue::real(1e-8))},
      {"weight_decay",
       decays ? option(optimizer, "weight_decay", PythonValue::real(0.01))
              : PythonValue::real(0)},
      {"step", PythonValue::integer(optimizer.steps)}};
}

/// The numbers of a group's parameters.
PythonValue numbers_from(std::size_t begin, std::size_t count) {
  std::vector<PythonValue> numbers;
  for (std::size_t i = begin; i < begin + count; ++i) {
    numbers.push_back(PythonValue::integer(static_cast<std::int64_t>(i)));
  }
  return PythonValue::list(std::move(numbers));
}

/// Megatron's dynamic loss scaler; DeepSpeed's counts the updates otherwise.
std::optional<PythonValue> grad_scaler(const MegatronOptimizer& optimizer) {
  const PythonValue& saved = optimizer.loss_scaler;
  if (saved.is_none()) {
    return std::nullopt;
  }
  const auto scale = saved.find("cur_scale");
  const auto iteration = saved.find("cur_iter");
  const auto overflow = saved.find("last_overflow_iter");
  if (!scale || !iteration || !overflow) { // a scale that does not change
    return std::nullopt;
  }
  const std::int64_t clean = iteration->integer() - overflow->integer() - 1;
  const auto hysteresis = saved.find("cur_hysteresis");
  return PythonValue::dict_of(
      {{"scale",
        PythonValue::tensor(
            at::full({1}, scale->real(), at::TensorOptions(at::kFloat)))},
       {"growth_tracker",
        PythonValue::integer(std::max<std::int64_t>(0, clean))},
       {"hysteresis_tracker",
        hysteresis ? *hysteresis : PythonValue::integer(1)}});
}

/// An optimizer of 16 bits has torch's inside, that of fp32 is torch's.
PythonValue around(
    const MegatronOptimizer& optimizer,
    PythonValue inner,
    Members more) {
  const bool half = !optimizer.masters.empty() || optimizer.distributed;
  if (!half) {
    return inner;
  }
  Members members{{"optimizer", std::move(inner)}};
  if (auto scaler = grad_scaler(optimizer)) {
    members.emplace_back("grad_scaler", std::move(*scaler));
  }
  for (auto& one : more) {
    members.push_back(std::move(one));
  }
  return PythonValue::dict_of(std::move(members));
}

/// The groups without their parameters' numbers.
Members groups_member(const MegatronOptimizer& optimizer) {
  std::vector<PythonValue> groups;
  for (const bool decays : {true, false}) {
    groups.push_back(PythonValue::dict_of(group_of(optimizer, decays)));
  }
  return {{"param_groups", PythonValue::list(std::move(groups))}};
}

LazyTensor zeros(std::int64_t count) {
  return {at::kFloat, {count}, [count] { return at::zeros({count}); }};
}

} // namespace

std::map<std::string, NamedTensors> states_by_kind(
    const model::ModelDescription& description,
    const MegatronOptimizer& optimizer) {
  std::map<std::string, NamedTensors> kinds;
  for (const auto& [name, tensor] : optimizer.states) {
    const auto slash = name.find('/');
    if (const std::string kind = name.substr(0, slash); kind != "step") {
      kinds[kind].emplace_back(name.substr(slash + 1), tensor);
    }
  }
  if (kinds.size() != 2 || !kinds.contains("exp_avg") ||
      !kinds.contains("exp_avg_sq")) {
    throw ConfigError(
        {.what = "only the states of Adam are written for Megatron",
         .remedy = "convert with --weights-only"});
  }
  if (!optimizer.masters.empty() || optimizer.distributed) {
    kinds[master_kind] = optimizer.masters;
  }
  for (auto& [kind, tensors] : kinds) {
    tensors = parameter_tensors(description, tensors);
    for (auto& [name, tensor] : tensors) {
      tensor = as_type(std::move(tensor), at::kFloat);
    }
  }
  return kinds;
}

PythonValue flat_optimizer(
    const RankModel& model,
    const std::map<std::string, RankModel>& states) {
  const NamedTensors parameters = model.tensors();
  const at::ScalarType type = parameters.front().second.type;
  Members buffers;
  std::int64_t size = 0;
  for (const auto& [kind, rank] : states) {
    size = 0;
    const NamedTensors tensors = rank.tensors();
    std::vector<LazyTensor> pieces;
    // From the last parameter to the first.
    for (auto tensor = tensors.rbegin(); tensor != tensors.rend(); ++tensor) {
      const std::int64_t begin = flat_beginning(size);
      if (begin > size) {
        pieces.push_back(zeros(begin - size));
      }
      const std::int64_t count = c10::multiply_integers(tensor->second.shape);
      pieces.push_back(elements(tensor->second, 0, count));
      size = begin + count;
    }
    buffers.emplace_back(
        kind == master_kind ? "param" : kind,
        PythonValue::flat_tensor(at::kFloat, std::move(pieces)));
  }
  buffers.emplace_back("numel_unpadded", PythonValue::integer(size));
  const auto name_of_type = [](at::ScalarType one) {
    return PythonValue::global("torch", std::string(dtype_of(one)));
  };
  // Gradients are added up in fp32, but those of fp16 in fp16.
  const PythonValue types = PythonValue::tuple(
      {name_of_type(type),
       name_of_type(type == at::kHalf ? at::kHalf : at::kFloat)});
  return PythonValue::dict(
      {{PythonValue::text("buckets_coalesced"), PythonValue::boolean(true)},
       {PythonValue::integer(0),
        PythonValue::dict(
            {{types, PythonValue::dict_of(std::move(buffers))}})}});
}

PythonValue rank_optimizer(
    const RankModel& model,
    const std::map<std::string, RankModel>& states,
    const MegatronOptimizer& optimizer) {
  if (optimizer.distributed) { // its tensors are in a file of their own
    return around(
        optimizer,
        PythonValue::dict_of(groups_member(optimizer)),
        {});
  }
  const OptimizerOrder order = order_of(model);
  std::map<std::string, std::map<std::string, LazyTensor>> by_kind;
  for (const auto& [kind, rank] : states) {
    for (auto& [path, tensor] : rank.tensors()) {
      by_kind[kind].emplace(path, tensor);
    }
  }
  std::vector<PythonValue::Entry> numbered;
  std::vector<PythonValue> groups;
  std::vector<PythonValue> masters;
  std::size_t next = 0;
  for (const auto* paths : {&order.matrices, &order.vectors}) {
    Members group = group_of(optimizer, paths == &order.matrices);
    group.emplace_back("params", numbers_from(next, paths->size()));
    groups.push_back(PythonValue::dict_of(std::move(group)));
    std::vector<PythonValue> copies;
    for (const std::string& path : *paths) {
      numbered.emplace_back(
          PythonValue::integer(static_cast<std::int64_t>(next++)),
          PythonValue::dict_of(
              {{"exp_avg", PythonValue::tensor(by_kind["exp_avg"].at(path))},
               {"exp_avg_sq",
                PythonValue::tensor(by_kind["exp_avg_sq"].at(path))}}));
      if (const auto& found = by_kind[master_kind]; !found.empty()) {
        copies.push_back(PythonValue::tensor(found.at(path)));
      }
    }
    masters.push_back(PythonValue::list(std::move(copies)));
  }
  Members more;
  if (!by_kind[master_kind].empty()) {
    more.emplace_back(
        "fp32_from_fp16_params",
        PythonValue::list(std::move(masters)));
  }
  return around(
      optimizer,
      PythonValue::dict_of(
          {{"state", PythonValue::dict(std::move(numbered))},
           {"param_groups", PythonValue::list(std::move(groups))}}),
      std::move(more));
}

PythonValue common_optimizer(const MegatronOptimizer& optimizer) {
  Members more;
  if (optimizer.distributed) {
    more.emplace_back(
        "param_state_sharding_type",
        PythonValue::text("fully_reshardable"));
  }
  return around(
      optimizer,
      PythonValue::dict_of(groups_member(optimizer)),
      std::move(more));
}

PythonValue content_metadata(const MegatronOptimizer& optimizer) {
  Members members;
  if (optimizer.distributed) {
    members.emplace_back(
        "distrib_optim_sharding_type",
        PythonValue::text("fully_reshardable"));
    members.emplace_back(
        "distrib_optim_fully_reshardable_mem_efficient",
        PythonValue::boolean(false));
  }
  members.emplace_back("singleton_local_shards", PythonValue::boolean(false));
  members.emplace_back(
      "chained_optim_avoid_prefix",
      PythonValue::boolean(true));
  return PythonValue::dict_of(std::move(members));
}

std::string state_prefix(
    const std::string& kind,
    const MegatronOptimizer& optimizer) {
  const std::string theirs = kind != master_kind ? kind
      : optimizer.distributed                    ? "param"
                                                 : "fp32_param";
  return fmt::format("optimizer.state.{}.", theirs);
}

} // namespace cairn::checkpoints::megatron
