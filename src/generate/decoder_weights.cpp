#include "generate/decoder_weights.h"

#include "generate/parameter_reader.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <string>

namespace cairn::generate {
namespace {

using kernels::cpu::WeightNumbers;

DecoderWeights read_part(const ParameterReader& read, const ModelPart& part) {
  DecoderWeights weights;
  if (part.first_stage) {
    weights.words = read.words();
    weights.positions = read.positions();
  }
  for (std::int64_t i = part.layers.begin; i < part.layers.end(); ++i) {
    weights.blocks.push_back(read.block(fmt::format("layers.{}.", i), i));
  }
  if (part.last_stage) {
    weights.final_norm = read.norm("final_norm");
    weights.head = read.head(part.first_stage ? weights.words : read.words());
  }
  return weights;
}

std::int64_t bytes_of(const LinearWeights& linear) {
  return static_cast<std::int64_t>(linear.weight.nbytes());
}

std::int64_t bytes_of(const MlpWeights& mlp) {
  return bytes_of(mlp.up) + bytes_of(mlp.down) +
      (mlp.gate ? bytes_of(*mlp.gate) : 0);
}

std::int64_t bytes_of(const MixtureWeights& mixture) {
  return bytes_of(mixture.router) +
      mixture.top_k * bytes_of(mixture.experts.front()) +
      (mixture.residual ? bytes_of(mixture.residual->mlp) +
               bytes_of(mixture.residual->coefficient)
                        : 0);
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
  const ModelPart all = ModelPart::of(model.description());
  return read_part(
      {rows_of_model(model), model.description(), all, numbers},
      all);
}

DecoderWeights DecoderWeights::read(
    const checkpoints::NamedTensors& tensors,
    const models::ModelDescription& model,
    const ModelPart& part,
    at::ScalarType dtype,
    std::optional<WeightType> numbers) {
  const at::NoGradGuard no_grad;
  return read_part(
      {rows_of_checkpoint(tensors, dtype), model, part, numbers},
      part);
}

T5Weights T5Weights::of(
    const models::Transformer& model,
    std::optional<WeightType> numbers) {
  const at::NoGradGuard no_grad;
  const models::ModelDescription& d = model.description();
  const ModelPart all = ModelPart::of(d);
  const ParameterReader read(rows_of_model(model), d, all, numbers);
  const auto stack = [&](const std::string& name, std::int64_t layers) {
    Stack result{
        .relative = read.wide(
            name + ".relative_bias.weight",
            d.position == model::PositionKind::relative)};
    for (std::int64_t i = 0; i < layers; ++i) {
      const std::string prefix = fmt::format("{}.layers.{}.", name, i);
      result.blocks.push_back(read.block(prefix, i));
      if (name == "decoder") {
        result.crosses.push_back(read.cross_attention(prefix));
      }
    }
    result.final_norm = read.norm(name + ".final_norm");
    return result;
  };
  const at::Tensor words = read.words();
  return {
      .words = words,
      .positions = read.positions(),
      .encoder = stack("encoder", d.layers),
      .decoder = stack("decoder", d.decoder_layers),
      .head = read.head(words)};
}

std::int64_t DecoderWeights::bytes_per_token() const {
  std::int64_t bytes = bytes_of(head);
  for (const BlockWeights& block : blocks) {
    bytes += bytes_of(block.query_key_value) + bytes_of(block.dense) +
        std::visit([](const auto& mlp) { return bytes_of(mlp); }, block.mlp);
  }
  return bytes;
}

} // namespace cairn::generate
