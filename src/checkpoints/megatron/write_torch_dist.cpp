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
        made.shape[0] *= 2;
      }
      if (layer) {
        made.shape.insert(made.shape.begin(), layers_);
      }
      tensors_.push_back(std::move(made));
    }
    std::vector<std::int64_t> begin(tensor.shape.size());
    if (name.half == Half::second) {
      begin[0] = tensor.shape[0];
    }
    if (layer) {
      begin.insert(begin.begin(), layer->layer);
    }
    tensors_[found->second].chunks.emplace_back(std::move(begin), tensor);
  }

  const std::vector<dcp::NewTensor>& tensors() const { return tensors_; }

 private:
  std::int64_t layers_;
  std::vector<dcp::NewTensor> tensors_;
  std::map<std::string, std::size_t> places_;
};

/// States for FP8 of the linear layers, which Megatron wants to find.
std::vector<PythonValue::Member> extra_states(std::int64_t layers) {
  std::vector<PythonValue::Member> objects;
  for (const char* linear :
       {"self_attention.linear_qkv",
        "self_attention.linear_proj",
        "mlp.linear_fc1",
        "mlp.linear_fc2"}) {
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      objects.emplace_back(
          fmt::format(
              "decoder.layers.{}._extra_state/shard_{}_{}",
              linear,
              layer,
              layers),
          PythonValue::list({PythonValue()}));
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
  dcp::write_dcp(folder, model.tensors(), extra_states(d.layers));
  write_torch_file(
      folder / common_file,
      PythonValue::dict_of(std::move(common)));
  write_file_atomically(
      folder / core_file,
      R"({"sharded_backend": "torch_dist", "sharded_backend_version": 1, )"
      R"("common_backend": "torch", "common_backend_version": 1})");
}

} // namespace cairn::checkpoints::megatron
