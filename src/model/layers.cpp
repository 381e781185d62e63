#include <cairn/model/parameters.h>

#include <fmt/format.h>

#include <map>

namespace cairn::model {
namespace {

constexpr const char* words = "embedding.word";

void add_embedding(const ModelDescription& d, std::vector<Layer>& layers) {
  // T5's two stacks begin with the same embedding.
  const bool shared = kind_of(d.family) == ModelKind::t5;
  layers.push_back({words, "embedding", shared || d.tied_head ? words : ""});
  layers.push_back({"embedding", "embedding", shared ? "embedding" : ""});
}

void add_stack(
    const ModelDescription& d,
    const std::string& prefix,
    std::int64_t blocks,
    std::vector<Layer>& layers) {
  if (d.position == PositionKind::relative) {
    layers.push_back({prefix + "relative_bias", "embedding"});
  }
  for (std::int64_t i = 0; i < blocks; ++i) {
    layers.push_back({fmt::format("{}layers.{}", prefix, i), "block"});
  }
  if (d.norm_place == NormPlace::before) {
    layers.push_back({prefix + "final_norm", "norm"});
  }
}

void add_heads(const ModelDescription& d, std::vector<Layer>& layers) {
  if (d.pooler) {
    layers.push_back({"pooler", "head"});
  }
  if (d.next_sentence_head) {
    layers.push_back({"next_sentence", "head"});
  }
  if (d.masked_head) {
    layers.push_back({"mlm", "head"});
  }
  if (!has_word_head(d)) {
    return;
  }
  // The bias first, which is small: a stage may end behind it.
  if (!d.tied_head || d.head_bias) {
    layers.push_back({"head", "head"});
  }
  if (d.tied_head) {
    layers.push_back({words, "head", words});
  }
}

std::vector<Layer> named_layers(const ModelDescription& d) {
  std::vector<Layer> layers;
  add_embedding(d, layers);
  if (kind_of(d.family) == ModelKind::t5) {
    add_stack(d, "encoder.", d.layers, layers);
    add_embedding(d, layers);
    add_stack(d, "decoder.", d.decoder_layers, layers);
  } else {
    add_stack(d, "", d.layers, layers);
  }
  add_heads(d, layers);
  return layers;
}

} // namespace

std::vector<Layer> layers_of(
    const ModelDescription& d,
    std::int64_t tensor_ranks) {
  std::map<std::string, Layer> sizes;
  for (const ModelParameter& parameter : model_parameters(d)) {
    const std::int64_t ranks =
        parameter.cut == TensorCut::whole ? 1 : tensor_ranks;
    const std::int64_t elements = parameter.elements() / ranks;
    Layer& size = sizes[parameter.layer];
    size.parameters += elements;
    size.experts += is_expert(parameter) ? elements : 0;
    size.idle += idle_elements(d, parameter) / ranks;
  }
  std::vector<Layer> layers = named_layers(d);
  for (Layer& layer : layers) {
    const Layer& size = sizes[layer.name];
    layer.parameters = size.parameters;
    layer.experts = size.experts;
    layer.idle = size.idle;
  }
  return layers;
}

} // namespace cairn::model
