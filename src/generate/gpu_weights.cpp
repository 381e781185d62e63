#include "generate/gpu_weights.h"

#include "generate/model_parameters.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <string>

namespace cairn::generate {
namespace {

/// Finds parameters by name and converts them.
class GpuParameters {
 public:
  GpuParameters(const models::Transformer& model, at::ScalarType type)
      : parameters_(model), type_(type) {}

  at::Tensor get(const std::string& name, bool exists = true) const {
    return exists ? parameters_.get(name).to(type_) : at::Tensor();
  }
  GpuNorm norm(const std::string& name, const models::ModelDescription& d)
      const {
    return {
        get(name + ".weight"),
        get(name + ".bias", d.norm == model::NormKind::layer_norm)};
  }
  GpuLinear linear(const std::string& name, bool bias) const {
    return {get(name + ".weight"), get(name + ".bias", bias)};
  }

 private:
  ModelParameters parameters_;
  at::ScalarType type_;
};

/// The first `rows` rows; zeros follow those that there are.
at::Tensor with_rows(const at::Tensor& x, std::int64_t rows) {
  if (!x.defined() || x.size(0) >= rows) {
    return x.defined() ? x.narrow(0, 0, rows) : x;
  }
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes[0] = rows;
  at::Tensor longer = at::zeros(sizes, x.options());
  longer.narrow(0, 0, x.size(0)).copy_(x);
  return longer;
}

std::shared_ptr<nn::Mixture> mixture_of(
    const models::Transformer& model,
    const std::string& name) {
  for (const auto& each : model.named_modules()) {
    if (each.key() == name) {
      if (auto mixture = std::dynamic_pointer_cast<nn::Mixture>(each.value())) {
        return mixture;
      }
    }
  }
  throw InternalError(
      {.what = "a model without experts that its description names",
       .values = name});
}

std::int64_t bytes_of(const GpuLinear& linear) {
  return static_cast<std::int64_t>(linear.weight.nbytes());
}

} // namespace

GpuWeights GpuWeights::of(
    const models::Transformer& model,
    at::ScalarType type) {
  const at::NoGradGuard no_grad;
  const models::ModelDescription& d = model.description();
  const GpuParameters read(model, type);
  GpuWeights weights;
  weights.words = read.get("embedding.word.weight");
  weights.positions = read.get(
      "embedding.position.weight",
      d.position == model::PositionKind::learned);
  for (std::int64_t i = 0; i < d.layers; ++i) {
    const std::string layer = fmt::format("layers.{}.", i);
    GpuBlock block{
        .input_norm = read.norm(layer + "input_norm", d),
        .query_key_value = read.linear(
            layer + "attention.query_key_value",
            model::has_query_key_value_bias(d)),
        .dense = read.linear(layer + "attention.dense", d.attention_bias),
        .post_attention_norm = read.norm(layer + "post_attention_norm", d),
        .gate = std::nullopt,
        .up = {},
        .down = {}};
    if (model::experts_in_layer(d, i) > 0) {
      block.mixture = mixture_of(model, layer + "mlp");
    } else {
      block.up = read.linear(layer + "mlp.up", d.mlp_bias);
      block.down = read.linear(layer + "mlp.down", d.mlp_bias);
    }
    if (d.gated && !block.mixture) {
      block.gate = read.linear(layer + "mlp.gate", d.mlp_bias);
    }
    weights.blocks.push_back(std::move(block));
  }
  weights.final_norm = read.norm("final_norm", d);
  const std::int64_t rows = (d.vocabulary + 7) / 8 * 8;
  weights.head = {
      with_rows(d.tied_head ? weights.words : read.get("head.weight"), rows),
      with_rows(read.get("head.bias", d.head_bias), rows)};
  return weights;
}

std::int64_t GpuWeights::bytes_per_token() const {
  std::int64_t bytes = bytes_of(head);
  for (const GpuBlock& block : blocks) {
    bytes += bytes_of(block.query_key_value) + bytes_of(block.dense);
    if (!block.mixture) {
      bytes += bytes_of(block.up) + bytes_of(block.down) +
          (block.gate ? bytes_of(*block.gate) : 0);
    }
  }
  return bytes;
}

} // namespace cairn::generate
