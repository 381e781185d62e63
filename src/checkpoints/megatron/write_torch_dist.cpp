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
  explicit StackedModel(std::int64_t layers) : layers_(layers) {}

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
        made.shape.insert(made.shape.begin(), layers_);
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

  std::int64_t layers_;
  std::vector<dcp::NewTensor> tensors_;
  std::map<std::string, std::size_t> places_;
};

/// States for FP8 of the linear layers, which Megatron wants to find.
std::vector<PythonValue::Member> extra_states(
    const model::ModelDescription& d) {
  std::vector<PythonValue::Member> objects;
  const auto add = [&](std::string_view linear, const std::string& shard) {
    objects.emplace_back(
        fmt::format("decoder.layers.{}._extra_state/shard_{}", linear, shard),
        PythonValue::list({PythonValue()}));
  };
  for (std::int64_t layer = 0; layer < d.layers; ++layer) {
    const std::string of_layers = fmt::format("{}_{}", layer, d.layers);
    add("self_attention.linear_qkv", of_layers);
    add("self_attention.linear_proj", of_layers);
    const std::int64_t experts = experts_in_layer(d, layer);
    if (experts == 0) {
      add("mlp.linear_fc1", of_layers);
      add("mlp.linear_fc2", of_layers);
    }
    for (std::int64_t expert = 0; expert < experts; ++expert) {
      const std::string of_experts =
          fmt::format("{}.{}_{}.{}", layer, expert, d.layers, experts);
      add("mlp.experts.experts.linear_fc1", of_experts);
      add("mlp.experts.experts.linear_fc2", of_experts);
    }
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
    into.add(
        prefix,
        *name,
        parameter.cut == model::TensorCut::vocabulary
            ? rows_repeating_last(values, 0, padded_vocabulary)
            : values);
  }
}

} // namespace

void write_torch_dist(
    const fs::path& folder,
    const model::ModelDescription& d,
    const NamedTensors& tensors,
    std::int64_t padded_vocabulary,
    std::vector<PythonValue::Member> common,
    const std::optional<MegatronOptimizer>& optimizer) {
  StackedModel model(d.layers);
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
    common.emplace_back("optimizer", common_optimizer(*optimizer));
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
