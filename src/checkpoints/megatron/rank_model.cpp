#include "checkpoints/megatron/rank_model.h"

#include "checkpoints/megatron/experts.h"
#include "checkpoints/megatron/names.h"
#include "checkpoints/megatron/pipeline.h"
#include "checkpoints/tensors/lazy_operations.h"
#include "checkpoints/tensors/named_tensors.h"

#include <cairn/base/error.h>
#include <cairn/model/parameters.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <tuple>

namespace cairn::checkpoints::megatron {

namespace {

/// The part of a tensor that one tensor rank has.
LazyTensor part_of(
    const LazyTensor& tensor,
    model::TensorCut cut,
    std::int64_t rank,
    std::int64_t ranks,
    std::int64_t padded_vocabulary) {
  switch (cut) {
    case model::TensorCut::whole:
      return tensor;
    case model::TensorCut::rows:
    case model::TensorCut::columns:
    case model::TensorCut::third: {
      const std::int64_t dim = cut == model::TensorCut::rows ? 0
          : cut == model::TensorCut::columns                 ? 1
                                                             : 2;
      const std::int64_t each =
          tensor.shape[static_cast<std::size_t>(dim)] / ranks;
      return sliced(tensor, dim, rank * each, (rank + 1) * each);
    }
    case model::TensorCut::vocabulary: {
      const std::int64_t each = padded_vocabulary / ranks;
      return rows_repeating_last(tensor, rank * each, (rank + 1) * each);
    }
  }
  throw InternalError({.what = "an unknown cut"});
}

using Paths = std::vector<std::pair<std::string_view, PythonValue>>;

/// Nested dicts from names like "language_model/encoder/layers.0.bias".
PythonValue nested(const Paths& paths) {
  std::vector<std::pair<std::string_view, Paths>> inner;
  std::vector<PythonValue::Member> members;
  for (const auto& [path, value] : paths) {
    const auto slash = path.find('/');
    if (slash == std::string_view::npos) {
      members.emplace_back(std::string(path), value);
      continue;
    }
    const std::string_view key = path.substr(0, slash);
    auto found =
        std::ranges::find(inner, key, &decltype(inner)::value_type::first);
    if (found == inner.end()) {
      found = inner.insert(inner.end(), {key, {}});
    }
    found->second.emplace_back(path.substr(slash + 1), value);
  }
  for (const auto& [key, values] : inner) {
    members.emplace_back(std::string(key), nested(values));
  }
  return PythonValue::dict_of(std::move(members));
}

/// Name of the entry that Megatron-Core has beside the weight of a linear
/// layer, for states of FP8; nullopt for other weights.
std::optional<std::string> extra_state_of(const std::string& path) {
  constexpr std::string_view weight = ".weight";
  const bool linear =
      path.find(".linear_") != path.npos || path.starts_with("output_layer.");
  return linear && path.ends_with(weight)
      ? std::optional(
            path.substr(0, path.size() - weight.size()) + "._extra_state")
      : std::nullopt;
}

/// Adds the entries without which Megatron-Core finds that keys are missing.
void add_extra_states(const std::string& path, bool once, RankModel& model) {
  const auto extra = extra_state_of(path);
  if (extra && once) {
    model.add(*extra, PythonValue());
  }
}

/// Adds the tensor of each expert, and the entry for states of FP8: one for all
/// of Transformer Engine's, or one for each.
void add_experts(
    const std::string& path,
    const LazyTensor& all,
    MegatronNames names,
    bool once,
    RankModel& model) {
  for (std::int64_t expert = 0; expert < all.rows(); ++expert) {
    const std::string own = path_of_expert(path, expert, names);
    model.add(own, row_of(all, expert));
    if (names == MegatronNames::core_local) {
      add_extra_states(own, once, model);
    }
  }
  if (names == MegatronNames::core && once && path.ends_with(".weight")) {
    const std::string first = path_of_expert(path, 0, names); // "….weight0"
    model.add(
        first.substr(0, first.rfind(".weight")) + "._extra_state",
        PythonValue());
  }
}

/// Parts of a layer in the order in which Megatron-Core's modules have them.
constexpr std::array<std::string_view, 17> layer_parts{
    ".input_layernorm.",
    ".self_attention.linear_proj.",
    ".self_attention.linear_qkv.layer_norm_",
    ".self_attention.linear_qkv.",
    ".self_attention.q_layernorm.",
    ".self_attention.k_layernorm.",
    ".pre_cross_attn_layernorm.",
    ".cross_attention.linear_proj.",
    ".cross_attention.linear_q.",
    ".cross_attention.linear_kv.",
    ".pre_mlp_layernorm.",
    ".mlp.router.",
    ".mlp.experts.",
    ".mlp.linear_fc1.layer_norm_",
    ".mlp.linear_fc1.",
    ".mlp.linear_fc2.",
    "."};

constexpr std::array<std::string_view, 14> model_parts{
    "embedding.word_embeddings.",
    "embedding.position_embeddings.",
    "embedding.tokentype_embeddings.",
    "position_embeddings.",
    "encoder.layers.",
    "encoder.final_layernorm.",
    "decoder.layers.",
    "decoder.final_layernorm.",
    "lm_head.dense.",
    "lm_head.layer_norm.",
    "lm_head.output_layer.",
    "output_layer.",
    "binary_head.",
    "pooler."};

template <std::size_t Count>
std::size_t place_among(
    const std::array<std::string_view, Count>& parts,
    std::string_view name) {
  return static_cast<std::size_t>(
      std::ranges::find_if(
          parts,
          [&](std::string_view part) { return name.starts_with(part); }) -
      parts.begin());
}

/// The place of a parameter of Megatron-Core among a rank's: part of the model,
/// layer, part of the layer, expert, and the weight before the bias.
std::tuple<std::size_t, std::int64_t, std::size_t, std::int64_t, bool>
module_place(const std::string& path) {
  const auto layer = layer_name(path);
  return {
      place_among(model_parts, path),
      layer ? layer->layer : 0,
      layer ? place_among(layer_parts, layer->rest) : 0,
      place_among_experts(path),
      path.ends_with("bias") || path.find(".bias") != path.npos};
}

} // namespace

void RankModel::add(std::string path, PythonValue value) {
  others_.emplace_back(std::move(path), std::move(value));
}

void RankModel::add(std::string path, LazyTensor part) {
  const auto [found, added] = places_.emplace(path, order_.size());
  if (added) {
    order_.emplace_back(std::move(path), std::vector<LazyTensor>());
  }
  order_[found->second].second.push_back(std::move(part));
}

void RankModel::sort_as_modules() {
  std::ranges::stable_sort(order_, {}, [](const auto& entry) {
    return module_place(entry.first);
  });
  number_places();
}

void RankModel::move_to_end(const std::string& path) {
  const auto found =
      std::ranges::find(order_, path, &decltype(order_)::value_type::first);
  if (found != order_.end()) {
    std::rotate(found, found + 1, order_.end());
    number_places();
  }
}

void RankModel::number_places() {
  places_.clear();
  for (std::size_t i = 0; i < order_.size(); ++i) {
    places_.emplace(order_[i].first, i);
  }
}

NamedTensors RankModel::tensors() const {
  NamedTensors tensors;
  for (const auto& [path, parts] : order_) {
    tensors.emplace_back(path, joined(parts, 0));
  }
  return tensors;
}

PythonValue RankModel::dict() const {
  Paths paths;
  for (const auto& [path, parts] : order_) {
    paths.emplace_back(path, PythonValue::tensor(joined(parts, 0)));
  }
  for (const auto& [path, value] : others_) {
    paths.emplace_back(path, value);
  }
  return nested(paths);
}

namespace {

/// A T5 has the bias of its head and its positions under two names each.
void add_second_names(RankModel& model) {
  for (const auto& [path, tensor] : model.tensors()) {
    if (path == t5_head_bias) {
      model.add(std::string(second_head_bias), tensor);
    } else if (path == core_positions) {
      model.add(std::string(second_core_positions), tensor);
    }
  }
  model.add("lm_head.output_layer._extra_state", PythonValue());
}

} // namespace

std::vector<RankModel> models_of_ranks(
    const model::ModelDescription& d,
    const NamedTensors& tensors,
    const MegatronSplit& split,
    MegatronNames names,
    std::int64_t padded_vocabulary) {
  const bool core = names != MegatronNames::legacy;
  const Pipeline pipeline(d, split);
  std::vector<RankModel> models(
      static_cast<std::size_t>(split.expert * split.pipeline * split.tensor));
  std::size_t next = 0;
  for (const model::ModelParameter& parameter : model::model_parameters(d)) {
    const LazyTensor& tensor = tensors[next++].second;
    const Place place = pipeline.place(parameter.name);
    const auto name = megatron_name(d, place.name, names);
    if (!name) {
      throw ConfigError(
          {.what = "no model of Megatron's has such a parameter",
           .values = parameter.name});
    }
    for (std::int64_t stage = 0; stage < split.pipeline; ++stage) {
      const bool copied = parameter.name.starts_with("embedding.") &&
          pipeline.copies_embedding(stage);
      const bool for_head = parameter.name == "embedding.word.weight" &&
          d.tied_head && pipeline.copies_for_head(stage);
      if (stage != place.stage && !copied && !for_head) {
        continue;
      }
      const std::string path =
          for_head ? std::string(tied_head_path(names)) : name->path;
      for (std::int64_t number = 0; number < split.expert * split.tensor;
           ++number) {
        const std::int64_t rank = number % split.tensor;
        const std::int64_t expert = number / split.tensor;
        RankModel& model = models[static_cast<std::size_t>(
            (expert * split.pipeline + stage) * split.tensor + rank)];
        LazyTensor part = part_of(
            tensor,
            parameter.cut,
            rank,
            split.tensor,
            padded_vocabulary);
        const bool once = name->half != Half::second;
        if (is_expert(parameter)) {
          const std::int64_t each = part.rows() / split.expert;
          part = sliced(part, 0, expert * each, (expert + 1) * each);
          add_experts(path, part, names, once, model);
          continue;
        }
        model.add(path, std::move(part));
        if (core) {
          add_extra_states(path, once, model);
        }
      }
    }
  }
  // With one stage a tied head has no weight, but an entry for FP8.
  if (core && d.tied_head && split.pipeline == 1) {
    for (RankModel& model : models) {
      model.add("output_layer._extra_state", PythonValue());
    }
  }
  if (core && d.family == model::ModelFamily::t5) {
    for (RankModel& model : models) {
      add_second_names(model);
    }
  }
  for (RankModel& model : models) {
    if (core) {
      model.sort_as_modules();
    } else {
      // Megatron makes the head after all other modules.
      model.move_to_end(std::string(tied_head_path(names)));
    }
  }
  return models;
}

} // namespace cairn::checkpoints::megatron
