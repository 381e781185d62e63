#include "checkpoints/megatron/deepspeed_experts.h"

#include "checkpoints/deepspeed/flat_optimizer.h"
#include "checkpoints/deepspeed/rank_files.h"
#include "checkpoints/deepspeed/tag_files.h"
#include "checkpoints/megatron/experts.h"
#include "checkpoints/megatron/group_kinds.h"
#include "checkpoints/megatron/layer_files.h"
#include "checkpoints/megatron/names.h"
#include "checkpoints/tensors/in_file.h"
#include "checkpoints/tensors/named_tensors.h"
#include "checkpoints/torch/optimizer_state_dict.h"

#include <cairn/base/error.h>
#include <cairn/checkpoints/torch_file.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace cairn::checkpoints::megatron {

namespace {

namespace fs = std::filesystem;
using Kind = PythonValue::Kind;
using deepspeed::TagFiles;

/// A stray copy of the first rank's experts, under a name that lacks a dot.
constexpr std::string_view stray = "encoderlayers.";

[[noreturn]] void refuse(std::string what, const fs::path& where) {
  throw CheckpointError({.what = std::move(what), .where = where.string()});
}

void add_tensors(
    const PythonValue& dict,
    const fs::path& file,
    RankTensors& rank) {
  for (auto& [given, tensor] : named_tensors(dict)) {
    const std::string name = modern_name(given);
    if (!is_ignored(name) && !name.starts_with(stray)) {
      add_tensor(rank, name, std::move(tensor), file);
    }
  }
}

/// A group of the optimizer, as DeepSpeed divides Megatron-DeepSpeed's.
struct Group {
  bool decays = true;
  bool experts = false;
};

/// The groups: of matrices and of vectors, each without experts and then with
/// them. nullopt for others.
std::optional<std::vector<Group>> groups_in(
    const std::vector<PythonValue>& saved) {
  std::vector<Group> groups;
  for (const PythonValue& group : saved) {
    const auto moe = group.find("moe");
    const bool experts = moe && moe->is(Kind::boolean) && moe->boolean();
    const auto kinds = kinds_of({group});
    groups.push_back({.decays = kinds->front().decays, .experts = experts});
    for (std::size_t i = 0; i + 1 < groups.size(); ++i) {
      if (groups[i].decays == groups.back().decays &&
          groups[i].experts == experts) {
        return std::nullopt;
      }
    }
  }
  return groups;
}

/// The parameters that each rank has, in the order of its modules: those of the
/// first rank's file, and the first of the experts.
std::vector<OrderedParameter> order_on_rank(
    const PythonValue& module,
    const RankTensors& experts,
    std::int64_t ranks) {
  std::vector<OrderedParameter> order;
  for (const auto& [given, tensor] : named_tensors(module)) {
    const std::string name = modern_name(given);
    if (!is_ignored(name) && !name.starts_with(stray)) {
      order.push_back({name, tensor.shape});
    }
  }
  // Experts stand behind all others, as their groups do; within a group by
  // layer, expert and product.
  struct Place {
    std::int64_t layer = 0;
    std::int64_t expert = 0;
    bool down = false;
    OrderedParameter parameter;
  };
  std::vector<Place> places;
  std::map<std::int64_t, std::int64_t> counts; // experts by layer
  for (const auto& [name, entry] : experts.tensors) {
    if (!is_of_experts(name)) {
      continue;
    }
    const std::int64_t layer = layer_name(name)->layer;
    const std::int64_t expert = place_among_experts(name) / 2;
    counts[layer] = std::max(counts[layer], expert + 1);
    places.push_back(
        {layer,
         expert,
         name.find("dense_4h_to_h") != name.npos,
         {name, entry.tensor.shape}});
  }
  std::erase_if(places, [&](const Place& place) {
    return place.expert >= counts[place.layer] / ranks;
  });
  std::ranges::stable_sort(places, [](const Place& a, const Place& b) {
    return std::tuple(a.layer, a.expert, a.down) <
        std::tuple(b.layer, b.expert, b.down);
  });
  for (Place& place : places) {
    order.push_back(std::move(place.parameter));
  }
  return order;
}

using StatesByKind = std::map<std::string, RankTensors>;

/// Adds "exp_avg/NAME" and the like, and counts the steps.
void add_states(
    const NamedTensors& states,
    const fs::path& file,
    StatesByKind& into,
    OptimizerContents& result) {
  for (const auto& [name, value] : states) {
    const auto slash = name.find('/');
    const std::string kind = name.substr(0, slash);
    if (kind != "step") {
      add_tensor(into[kind], modern_name(name.substr(slash + 1)), value, file);
    } else if (value.rows() == 1) {
      result.steps = std::max(
          result.steps,
          value.load().to(at::kLong).item<std::int64_t>());
    }
  }
}

/// Reads an optimizer without ZeRO, of a rank that has some of the experts.
void read_whole(
    const fs::path& file,
    const std::vector<OrderedParameter>& order,
    StatesByKind& into,
    OptimizerContents& result) {
  const PythonValue adam = read_torch_file(file).at("optimizer");
  if (!adam.is(Kind::dict) || !adam.find("param_groups") ||
      !adam.find("state")) {
    result.unread = "experts in 16 bits without ZeRO";
    return;
  }
  const std::vector<PythonValue> groups = adam.at("param_groups").items();
  const auto kinds = groups_in(groups);
  if (!kinds) {
    result.unread = "experts that several sizes of groups divide";
    return;
  }
  const auto states = by_number(adam.at("state"));
  std::int64_t next = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (const OrderedParameter& one : order) {
      if (is_of_experts(one.name) != (*kinds)[g].experts ||
          (one.shape.size() > 1) != (*kinds)[g].decays) {
        continue;
      }
      const auto state = states.find(next++);
      if (state == states.end()) {
        result.unread = fmt::format("{} has none", one.name);
        return;
      }
      NamedTensors values;
      for (const char* kind : {"exp_avg", "exp_avg_sq"}) {
        LazyTensor value = lazy_tensor(state->second.at(kind));
        if (value.shape != one.shape) {
          result.unread = fmt::format("{} has those of another", one.name);
          return;
        }
        values.emplace_back(fmt::format("{}/{}", kind, one.name), value);
      }
      add_states(values, file, into, result);
      result.steps =
          std::max(result.steps, step_in(state->second.find("step")));
    }
  }
  if (next != static_cast<std::int64_t>(states.size())) {
    result.unread = "there are states of other parameters";
  }
}

/// A rank's part of a ZeRO optimizer, of some of the groups alone.
PythonValue only_groups(
    const PythonValue& shard,
    const std::vector<std::size_t>& chosen) {
  const auto weights = shard.at("single_partition_of_fp32_groups").items();
  const auto states = by_number(shard.at("base_optimizer_state").at("state"));
  std::vector<PythonValue> kept;
  std::vector<PythonValue::Entry> numbered;
  for (const std::size_t group : chosen) {
    const auto state = states.find(static_cast<std::int64_t>(group));
    if (group >= weights.size() || state == states.end()) {
      throw CheckpointError({.what = "a group of parameters is missing"});
    }
    numbered.emplace_back(
        PythonValue::integer(static_cast<std::int64_t>(kept.size())),
        state->second);
    kept.push_back(weights[group]);
  }
  return PythonValue::dict_of(
      {{"single_partition_of_fp32_groups", PythonValue::list(std::move(kept))},
       {"base_optimizer_state",
        PythonValue::dict_of(
            {{"state", PythonValue::dict(std::move(numbered))}})}});
}

/// ZeRO's files of all data-parallel ranks.
struct Shards {
  std::vector<fs::path> files;
  std::vector<PythonValue> optimizers;
  deepspeed::ShapeGroups shapes;
};

/// Reads groups that every `step`th of the ranks has, from the `first` one on.
void read_part(
    const Shards& shards,
    const std::vector<std::size_t>& chosen,
    std::size_t first,
    std::size_t step,
    StatesByKind& into,
    OptimizerContents& result) {
  deepspeed::ShapeGroups shapes;
  for (const std::size_t group : chosen) {
    if (group >= shards.shapes.size()) {
      throw CheckpointError({.what = "a group of parameters is missing"});
    }
    shapes.push_back(shards.shapes[group]);
  }
  std::vector<PythonValue> dicts;
  std::vector<fs::path> files;
  for (std::size_t rank = first; rank < shards.files.size(); rank += step) {
    dicts.push_back(in_file(shards.files[rank], [&] {
      return only_groups(shards.optimizers[rank], chosen);
    }));
    files.push_back(shards.files[rank]);
  }
  const fs::path file = files.front();
  const deepspeed::FlatOptimizer part(
      {"single_partition_of_fp32_groups", "base_optimizer_state"},
      std::move(shapes),
      std::move(dicts),
      std::move(files));
  NamedTensors states = part.states();
  for (const auto& [name, tensor] : part.weights()) {
    states.emplace_back(fmt::format("{}/{}", master_kind, name), tensor);
  }
  add_states(states, file, into, result);
}

/// Reads ZeRO's files of stage 1 or 2.
void read_shards(
    const TagFiles& files,
    const Contents& contents,
    std::vector<StatesByKind>& into,
    OptimizerContents& result) {
  Shards shards{.files = deepspeed::of_rank(files.optimizers, 0)};
  for (const fs::path& file : shards.files) {
    shards.optimizers.push_back(in_file(file, [&] {
      return read_torch_file(file).at("optimizer_state_dict");
    }));
  }
  shards.shapes = in_file(contents.where, [&] {
    return deepspeed::shape_groups(contents.first.at("param_shapes"));
  });
  in_file(shards.files.front(), [&] {
    const PythonValue& first = shards.optimizers.front();
    result.loss_scaler =
        deepspeed::member(first, "loss_scaler").value_or(PythonValue());
    const auto saved =
        first.at("base_optimizer_state").at("param_groups").items();
    const auto kinds = groups_in(saved);
    if (!kinds) {
      result.unread = "experts that several sizes of groups divide";
      return;
    }
    const auto counts = first.at("partition_count").items();
    std::vector<std::size_t> others;
    std::vector<std::size_t> experts;
    for (std::size_t g = 0; g < kinds->size(); ++g) {
      ((*kinds)[g].experts ? experts : others).push_back(g);
      if (!(*kinds)[g].experts) {
        result.groups.push_back(saved[g]);
      }
    }
    const std::size_t ranks = shards.files.size();
    const auto copies = experts.empty() || experts.front() >= counts.size()
        ? 0
        : static_cast<std::size_t>(counts[experts.front()].integer());
    if (copies == 0 || ranks % copies != 0) {
      throw CheckpointError({.what = "no groups of experts"});
    }
    into.resize(ranks / copies);
    read_part(shards, others, 0, 1, into.front(), result);
    for (std::size_t rank = 0; rank < into.size(); ++rank) {
      read_part(shards, experts, rank, into.size(), into[rank], result);
    }
  });
}

} // namespace

bool has_deepspeed_experts(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (deepspeed::is_expert_file(entry->path())) {
      return true;
    }
  }
  return false;
}

Contents read_deepspeed_experts(const fs::path& folder) {
  const TagFiles files = deepspeed::tag_files(folder, "");
  if (!files.layers.empty() || files.models.empty()) {
    refuse(
        "experts of DeepSpeed's are read without a pipeline, at ZeRO 0 to 2",
        folder);
  }
  if (files.models.size() > 1) {
    refuse(
        "experts of DeepSpeed's are read of one tensor parallel rank",
        folder);
  }
  Contents contents;
  const fs::path& file = files.models.begin()->second;
  read_model_states(file, contents);
  RankTensors rank;
  in_file(file, [&] { add_tensors(contents.first.at("module"), file, rank); });
  for (const auto& [place, path] : files.experts) {
    in_file(path, [&] { add_tensors(read_torch_file(path), path, rank); });
  }
  contents.ranks.push_back(with_stacked_experts({std::move(rank)}, 1));
  contents.has_optimizer =
      !files.optimizers.empty() || !files.expert_optimizers.empty();
  return contents;
}

OptimizerContents read_deepspeed_expert_optimizer(
    const fs::path& folder,
    const Contents& contents) {
  const TagFiles files = deepspeed::tag_files(folder, "");
  OptimizerContents result;
  std::vector<StatesByKind> states; // by expert parallel rank
  if (!files.optimizers.empty()) {
    read_shards(files, contents, states, result);
  } else {
    const auto ranks =
        static_cast<std::int64_t>(files.expert_optimizers.size());
    RankTensors experts;
    for (const auto& [place, path] : files.experts) {
      in_file(path, [&] { add_tensors(read_torch_file(path), path, experts); });
    }
    const auto order =
        order_on_rank(contents.first.at("module"), experts, ranks);
    for (const auto& [place, path] : files.expert_optimizers) {
      in_file(path, [&] {
        read_whole(path, order, states.emplace_back(), result);
      });
    }
    const auto optimizer = contents.first.find("optimizer");
    if (result.unread.empty() && optimizer && optimizer->is(Kind::dict)) {
      for (const PythonValue& group : optimizer->at("param_groups").items()) {
        if (!group.find("moe")) {
          result.groups.push_back(group);
        }
      }
    }
  }
  if (!result.unread.empty()) {
    return result;
  }
  for (const char* kind : {"exp_avg", "exp_avg_sq", master_kind}) {
    std::vector<RankTensors> parts;
    for (StatesByKind& own : states) {
      parts.push_back(std::move(own[kind]));
    }
    if (!parts.front().tensors.empty()) {
      result.states[kind].push_back(with_stacked_experts(std::move(parts), 1));
    }
  }
  return result;
}

} // namespace cairn::checkpoints::megatron
