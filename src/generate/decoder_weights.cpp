#include "generate/decoder_weights.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <cairn/base/error.h>
#include <fmt/format.h>

#include <string>

namespace cairn::generate {
namespace {

using kernels::cpu::WeightNumbers;

/// Finds parameters by name and converts them.
class ParameterReader {
 public:
  ParameterReader(
      const models::Transformer& model,
      std::optional<WeightType> numbers)
      : parameters_(model.named_parameters()), numbers_(numbers) {}

  at::Tensor get(const std::string& name) const {
    const at::Tensor* found = parameters_.find(name);
    if (found == nullptr) {
      throw InternalError(
          {.what = "a model without a parameter that its description names",
           .values = name});
    }
    return found->detach().contiguous();
  }

  at::Tensor wide(const std::string& name, bool exists) const {
    return exists ? get(name).to(at::kFloat) : at::Tensor();
  }

  NormWeights norm(const std::string& name, const models::ModelDescription& d)
      const {
    return {
        wide(name + ".weight", true),
        wide(name + ".bias", d.norm == model::NormKind::layer_norm)};
  }

  LinearWeights linear(const std::string& name, bool bias) const {
    LinearWeights result = of(get(name + ".weight"));
    result.bias = wide(name + ".bias", bias);
    return result;
  }

  LinearWeights of(const at::Tensor& weight) const {
    if (numbers_ == WeightType::int8) {
      return int8_weights(weight);
    }
    const bool narrow = numbers_ ? numbers_ == WeightType::bf16
                                 : weight.scalar_type() == at::kBFloat16;
    LinearWeights result{weight.to(narrow ? at::kBFloat16 : at::kFloat)};
    result.matrix = {
        .data = result.weight.const_data_ptr(),
        .numbers = narrow ? WeightNumbers::bf16 : WeightNumbers::fp32,
        .inputs = weight.size(1)};
    result.outputs = weight.size(0);
    return result;
  }

 private:
  torch::OrderedDict<std::string, at::Tensor> parameters_;
  std::optional<WeightType> numbers_;
};

std::int64_t bytes_of(const LinearWeights& linear) {
  return static_cast<std::int64_t>(linear.weight.nbytes());
}

} // namespace

LinearWeights int8_weights(const at::Tensor& weight) {
  const at::Tensor wide = weight.to(at::kFloat);
  LinearWeights result;
  result.factors = wide.abs().amax(1).div_(127).contiguous();
  const at::Tensor divisors =
      result.factors.masked_fill(result.factors == 0, 1).unsqueeze(1);
  result.weight = (wide / divisors).round_().to(at::kChar).contiguous();
  result.matrix = {
      .data = result.weight.const_data_ptr(),
      .numbers = WeightNumbers::int8,
      .factors = result.factors.const_data_ptr<float>(),
      .inputs = weight.size(1)};
  result.outputs = weight.size(0);
  return result;
}

DecoderWeights DecoderWeights::of(
    const models::Transformer& model,
    std::optional<WeightType> numbers) {
  const at::NoGradGuard no_grad;
  const models::ModelDescription& d = model.description();
  const ParameterReader read(model, numbers);
  DecoderWeights weights;
  weights.words = read.get("embedding.word.weight");
  weights.positions = read.wide(
      "embedding.position.weight",
      d.position == model::PositionKind::learned);
  for (std::int64_t i = 0; i < d.layers; ++i) {
    const std::string layer = fmt::format("layers.{}.", i);
    BlockWeights block{
        .input_norm = read.norm(layer + "input_norm", d),
        .query_key_value =
            read.linear(layer + "attention.query_key_value", d.attention_bias),
        .dense = read.linear(layer + "attention.dense", d.attention_bias),
        .post_attention_norm = read.norm(layer + "post_attention_norm", d),
        .gate = std::nullopt,
        .up = read.linear(layer + "mlp.up", d.mlp_bias),
        .down = read.linear(layer + "mlp.down", d.mlp_bias)};
    if (d.gated) {
      block.gate = read.linear(layer + "mlp.gate", d.mlp_bias);
    }
    weights.blocks.push_back(std::move(block));
  }
  weights.final_norm = read.norm("final_norm", d);
  weights.head = read.of((d.tied_head ? weights.words : read.get("head.weight"))
                             .narrow(0, 0, d.vocabulary));
  weights.head.bias = read.wide("head.bias", d.head_bias);
  return weights;
}

std::int64_t DecoderWeights::bytes_per_token() const {
  std::int64_t bytes = bytes_of(head);
  for (const BlockWeights& block : blocks) {
    bytes += bytes_of(block.query_key_value) + bytes_of(block.dense) +
        bytes_of(block.up) + bytes_of(block.down) +
        (block.gate ? bytes_of(*block.gate) : 0);
  }
  return bytes;
}

} // namespace cairn::generate
