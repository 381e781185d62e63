#include "checkpoints/megatron/write_torch_dist.h"

#include "checkpoints/dcp/write.h"
#include "checkpoints/megatron/names.h"
#include "checkpoints/megatron/torch_dist.h"
#include "checkpoints/megatron/write_optimizer.h"
#include "checkpoints/tensors/lazy_operations.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <cairn/checkpoints/torch_file.h>
#include <cairn/model/parameters.h>
#include <fmt/format.h>

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace cairn::checkpoints::megatron {

namespace {

namespace fs = std::filesystem;

/// Collects the tensors of the whole model; all layers of a parameter are one.
class StackedModel {
 public:
  explicit StackedModel(const model::ModelDescription& d) : d_(d) {}

  /// `prefix` stands before the name in the folder.
  void add(
      const std::string& prefix,
      const Name& name,
      const LazyTensor& tensor) {
    const auto layer = layer_name(name.path);
    const std::string key = layer
        ? fmt::format("{}{}{}", prefix, layer->stack, layer->rest.substr(1))
        : prefix + name.path;
    const auto [found, added] = places_.emplace(key, tensors_.size());
    if (added) {
      dcp::NewTensor made{.name = key, .shape = tensor.shape};
      if (name.half != Half::none) {
        made.shape[dim_of_halves(name)] *= 2;
      }
      if (layer) {
        const bool second = d_.family == model::ModelFamily::t5 &&
            layer->stack.starts_with("decoder.");
        made.shape.insert(
            made.shape.begin(),
            second ? d_.decoder_layers : d_.layers);
      }
      tensors_.push_back(std::move(made));
    }
    std::vector<std::int64_t> begin(tensor.shape.size());
    if (name.half == Half::second) {
      begin[dim_of_halves(name)] = tensor.shape[dim_of_halves(name)];
    }
    if (layer) {
      begin.insert(begin.begin(), layer->layer);
    }
    tensors_[found->second].chunks.emplace_back(std::move(begin), tensor);
  }

  const std::vector<dcp::NewTensor>& tensors() const { return tensors_; }

 private:
  /// The dimension along which gate and up follow each other: of experts the
  /// second.
  static std::size_t dim_of_halves(const Name& name) {
    return name.path.find(".experts.") == name.path.npos ? 0 : 1;
  }

  const model::ModelDescription& d_;
  std::vector<dcp::NewTensor> tensors_;
  std::map<std::string, std::size_t> places_;
};

/// States for FP8 of the linear layers, which Megatron wants to find.
std::vector<PythonValue::Member> extra_states_of(
    const model::ModelDescription& d,
    std::string_view stack,
    std::int64_t layers) {
  std::vector<PythonValue::Member> objects;
  const auto add = [&](std::string_view linear, const std::string& shard) {
    objects.emplace_back(
        fmt::format("{}{}._extra_state/shard_{}", stack, linear, shard),
        PythonValue::list({PythonValue()}));
  };
  const bool cross =
      d.family == model::ModelFamily::t5 && stack.starts_with("decoder.");
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const std::string of_layers = fmt::format("{}_{}", layer, layers);
    add("self_attention.linear_qkv", of_layers);
    add("self_attention.linear_proj", of_layers);
    for (const char* part : {"linear_q", "linear_kv", "linear_proj"}) {
      if (cross) {
        add(fmt::format("cross_attention.{}", part), of_layers);
      }
    }
    const std::int64_t experts = experts_in_layer(d, layer);
    if (experts == 0) {
      add("mlp.linear_fc1", of_layers);
      add("mlp.linear_fc2", of_layers);
    }
    for (std::int64_t expert = 0; expert < experts; ++expert) {
      const std::string of_experts =
          fmt::format("{}.{}_{}.{}", layer, expert, layers, experts);
      add("mlp.experts.experts.linear_fc1", of_experts);
      add("mlp.experts.experts.linear_fc2", of_experts);
    }
  }
  return objects;
}

std::vector<PythonValue::Member> extra_states(
    const model::ModelDescription& d) {
  constexpr std::string_view encoder = "encoder.layers.";
  constexpr std::string_view decoder = "decoder.layers.";
  const bool t5 = d.family == model::ModelFamily::t5;
  const bool bert = d.family == model::ModelFamily::bert;
  auto objects = extra_states_of(d, t5 || bert ? encoder : decoder, d.layers);
  const auto add = [&](const char* linear) {
    objects.emplace_back(
        fmt::format("{}._extra_state/shard_0_1", linear),
        PythonValue::list({PythonValue()}));
  };
  if (t5) {
    for (auto& object : extra_states_of(d, decoder, d.decoder_layers)) {
      objects.push_back(std::move(object));
    }
    add("lm_head.output_layer");
  }
  if (t5 || bert) {
    add("output_layer");
  }
  return objects;
}

/// Adds tensors in the order of model_parameters().
void add_all(
    const model::ModelDescription& d,
    const NamedTensors& tensors,
    const std::string& prefix,
    std::int64_t padded_vocabulary,
    StackedModel& into) {
  auto tensor = tensors.begin();
  for (const model::ModelParameter& parameter : model::model_parameters(d)) {
    const auto name = megatron_name(d, parameter.name, MegatronNames::core);
    if (!name) {
      throw ConfigError(
          {.what = "no model of Megatron's has such a parameter",
           .values = parameter.name});
    }
    const LazyTensor& values = (tensor++)->second;
    // Megatron-Core's local layers have another name for the norm before a
    // router than Transformer Engine's, and look for it alone.
    constexpr std::string_view before_router = ".pre_mlp_layernorm.";
    if (const auto at = name->path.find(before_router); at != name->path.npos) {
      Name other = *name;
      other.path.replace(
          at,
          before_router.size(),
          ".mlp.linear_fc1.layer_norm_");
      into.add(prefix, other, values);
    }
    const LazyTensor own = parameter.cut == model::TensorCut::vocabulary
        ? rows_repeating_last(values, 0, padded_vocabulary)
        : values;
    into.add(prefix, *name, own);
    // A T5 has two tensors under two names each.
    if (name->path == t5_head_bias) {
      into.add(prefix, {.path = std::string(second_head_bias)}, own);
    } else if (
        d.family == model::ModelFamily::t5 &&
        parameter.name == "embedding.position.weight") {
      into.add(prefix, {.path = std::string(second_core_positions)}, own);
    }
  }
}

} // namespace

void write_torch_dist(
    const fs::path& folder,
    const model::ModelDescription& d,
    const NamedTensors& tensors,
    std::int64_t padded_vocabulary,
    std::vector<PythonValue::Member> common,
    const std::optional<MegatronOptimizer>& optimizer,
    bool two_optimizers) {
  StackedModel model(d);
  add_all(d, tensors, "", padded_vocabulary, model);
  if (optimizer) {
    for (const auto& [kind, states] : states_by_kind(d, *optimizer)) {
      add_all(
          d,
          states,
          state_prefix(kind, *optimizer),
          padded_vocabulary,
          model);
    }
    common.emplace_back(
        "optimizer",
        two_optimizers ? two_common_optimizers(*optimizer, d.mlp_bias)
                       : common_optimizer(*optimizer));
    common.emplace_back("content_metadata", content_metadata(*optimizer));
  }
  dcp::write_dcp(folder, model.tensors(), extra_states(d));
  write_torch_file(
      folder / common_file,
      PythonValue::dict_of(std::move(common)));
  write_file_atomically(
      folder / core_file,
      R"({"sharded_backend": "torch_dist", "sharded_backend_version": 1, )"
      R"("common_backend": "torch", "common_backend_version": 1})");
}

} // namespace cairn::checkpoints::megatron
