#include "checkpoints/megatron/write_optimizer.h"

#include "checkpoints/megatron/experts.h"
#include "checkpoints/megatron/group_kinds.h"
#include "checkpoints/megatron/names.h"
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

/// The parameters that an optimizer has.
enum class Part { all, others, experts };

bool is_in(Part part, const std::string& path) {
  return part == Part::all || (part == Part::experts) == is_of_experts(path);
}

/// The parameters, each once: a T5 of Megatron-Core has two of its tensors
/// under two names each.
NamedTensors tensors_in(Part part, const RankModel& model) {
  NamedTensors tensors = model.tensors();
  const bool t5 = std::ranges::any_of(tensors, [](const auto& named) {
    return named.first == t5_head_bias;
  });
  std::erase_if(tensors, [&](const auto& named) {
    const std::string& path = named.first;
    return !is_in(part, path) || path == second_core_positions ||
        (t5 && path == second_head_bias);
  });
  return tensors;
}

/// The kinds of an optimizer's groups in Megatron's order. Among the experts
/// there are vectors only where these have biases.
std::vector<GroupKind> kinds_in(
    Part part,
    const MegatronOptimizer& optimizer,
    bool has_vectors) {
  const bool decoupled =
      part != Part::experts && !optimizer.decoupled_options.is_none();
  std::vector<GroupKind> kinds{{.decays = true}};
  if (decoupled) {
    kinds.front().decoupled = false;
    kinds.push_back({.decays = true, .decoupled = true});
  }
  if (part != Part::experts || has_vectors) {
    kinds.push_back({.decays = false});
  }
  return kinds;
}

/// The paths of a group's parameters, in the order of the modules.
std::vector<std::string> paths_of(
    const GroupKind& kind,
    const NamedTensors& tensors) {
  std::vector<std::string> paths;
  for (const auto& [path, tensor] : tensors) {
    std::string dotted = path;
    std::ranges::replace(dotted, '/', '.');
    if (kind.has(tensor.shape.size() < 2, is_embedding_or_output(dotted))) {
      paths.push_back(path);
    }
  }
  return paths;
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
Members group_of(
    const MegatronOptimizer& optimizer,
    Part part,
    const GroupKind& kind) {
  const bool decays = kind.decays;
  const bool own_rate = kind.decoupled.value_or(false);
  PythonValue lr = option(optimizer, "lr", PythonValue::real(0));
  PythonValue max_lr = scheduled(optimizer, "max_lr", lr);
  PythonValue min_lr = scheduled(optimizer, "min_lr", PythonValue::real(0));
  if (own_rate) {
    const PythonValue& own = optimizer.decoupled_options;
    max_lr = own.find("max_lr").value_or(max_lr);
    min_lr = own.find("min_lr").value_or(min_lr);
    lr = own.find("lr").value_or(max_lr);
  }
  return {
      {"is_expert_parallel", PythonValue::boolean(part == Part::experts)},
      {"default_config", PythonValue::boolean(!own_rate)},
      {"wd_mult", PythonValue::real(decays ? 1 : 0)},
      {"lr_mult", PythonValue::real(1)},
      {"is_decoupled_lr", PythonValue::boolean(false)},
      {"max_lr", max_lr},
      {"min_lr", min_lr},
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
Members groups_member(
    const MegatronOptimizer& optimizer,
    Part part,
    bool has_vectors) {
  std::vector<PythonValue> groups;
  for (const GroupKind& kind : kinds_in(part, optimizer, has_vectors)) {
    groups.push_back(PythonValue::dict_of(group_of(optimizer, part, kind)));
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

namespace {

PythonValue flat_part(
    Part part,
    const RankModel& model,
    const std::map<std::string, RankModel>& states) {
  const at::ScalarType type = model.tensors().front().second.type;
  Members buffers;
  std::int64_t size = 0;
  for (const auto& [kind, rank] : states) {
    size = 0;
    const NamedTensors tensors = tensors_in(part, rank);
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

PythonValue rank_part(
    Part part,
    const RankModel& model,
    const std::map<std::string, RankModel>& states,
    const MegatronOptimizer& optimizer) {
  const NamedTensors parameters = tensors_in(part, model);
  const bool has_vectors = std::ranges::any_of(
      parameters,
      [](const auto& named) { return named.second.shape.size() < 2; });
  if (optimizer.distributed) { // its tensors are in a file of their own
    return around(
        optimizer,
        PythonValue::dict_of(groups_member(optimizer, part, has_vectors)),
        {});
  }
  std::map<std::string, std::map<std::string, LazyTensor>> by_kind;
  for (const auto& [kind, rank] : states) {
    for (auto& [path, tensor] : tensors_in(part, rank)) {
      by_kind[kind].emplace(path, tensor);
    }
  }
  std::vector<PythonValue::Entry> numbered;
  std::vector<PythonValue> groups;
  std::vector<PythonValue> masters;
  std::size_t next = 0;
  for (const GroupKind& kind : kinds_in(part, optimizer, has_vectors)) {
    const std::vector<std::string> paths = paths_of(kind, parameters);
    Members group = group_of(optimizer, part, kind);
    group.emplace_back("params", numbers_from(next, paths.size()));
    groups.push_back(PythonValue::dict_of(std::move(group)));
    std::vector<PythonValue> copies;
    for (const std::string& path : paths) {
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

PythonValue common_part(
    Part part,
    const MegatronOptimizer& optimizer,
    bool has_vectors) {
  Members more;
  if (optimizer.distributed) {
    more.emplace_back(
        "param_state_sharding_type",
        PythonValue::text("fully_reshardable"));
  }
  return around(
      optimizer,
      PythonValue::dict_of(groups_member(optimizer, part, has_vectors)),
      std::move(more));
}

} // namespace

PythonValue flat_optimizer(
    const RankModel& model,
    const std::map<std::string, RankModel>& states) {
  return flat_part(Part::all, model, states);
}

PythonValue two_flat_optimizers(
    const RankModel& model,
    const std::map<std::string, RankModel>& states,
    bool first) {
  return PythonValue::list(
      {first ? flat_part(Part::others, model, states) : PythonValue(),
       flat_part(Part::experts, model, states)});
}

PythonValue rank_optimizer(
    const RankModel& model,
    const std::map<std::string, RankModel>& states,
    const MegatronOptimizer& optimizer,
    bool two_optimizers) {
  if (!two_optimizers) {
    return rank_part(Part::all, model, states, optimizer);
  }
  return PythonValue::list(
      {rank_part(Part::others, model, states, optimizer),
       rank_part(Part::experts, model, states, optimizer)});
}

PythonValue common_optimizer(const MegatronOptimizer& optimizer) {
  return common_part(Part::all, optimizer, true);
}

PythonValue two_common_optimizers(
    const MegatronOptimizer& optimizer,
    bool experts_have_biases) {
  return PythonValue::dict(
      {{PythonValue::integer(0), common_part(Part::others, optimizer, true)},
       {PythonValue::integer(1),
        common_part(Part::experts, optimizer, experts_have_biases)}});
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
