#include "generate/decoder_weights.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <cairn/base/error.h>
#include <fmt/format.h>

#include <functional>
#include <map>
#include <string>
#include <utility>

namespace cairn::generate {
namespace {

using kernels::cpu::WeightNumbers;

/// Reads rows of the parameter with a name; without a stretch, all rows.
using ReadRows = std::function<
    at::Tensor(const std::string& name, std::optional<Stretch> rows)>;

[[noreturn]] void lacks(const std::string& name) {
  throw CheckpointError(
      {.what = "no tensor for a parameter of the model", .values = name});
}

/// The parameters of a model in memory. What is read is the model's own memory.
ReadRows rows_of_model(const models::Transformer& model) {
  return [parameters = model.named_parameters()](
             const std::string& name,
             std::optional<Stretch> rows) {
    const at::Tensor* found = parameters.find(name);
    if (found == nullptr) {
      lacks(name);
    }
    const at::Tensor whole = found->detach();
    return (rows ? whole.narrow(0, rows->begin, rows->count) : whole)
        .contiguous();
  };
}

/// The tensors of a checkpoint, in memory of their own: a file may change.
ReadRows rows_of_checkpoint(
    const checkpoints::NamedTensors& tensors,
    at::ScalarType dtype) {
  std::map<std::string, const checkpoints::LazyTensor*> by_name;
  for (const auto& [name, tensor] : tensors) {
    by_name[name] = &tensor;
  }
  return [by_name = std::move(by_name),
          dtype](const std::string& name, std::optional<Stretch> rows) {
    const auto found = by_name.find(name);
    if (found == by_name.end()) {
      lacks(name);
    }
    const Stretch all = rows.value_or(Stretch{0, found->second->rows()});
    const at::Tensor stored = found->second->open()(all.begin, all.end());
    at::Tensor own = at::empty(stored.sizes(), dtype);
    own.copy_(stored);
    return own;
  };
}

/// Takes the parameters of a part of a model, and converts them.
class ParameterReader {
 public:
  ParameterReader(
      ReadRows read,
      const models::ModelDescription& model,
      const ModelPart& part,
      std::optional<WeightType> numbers)
      : read_(std::move(read)), model_(model), part_(part), numbers_(numbers) {}

  at::Tensor words() const {
    return read_("embedding.word.weight", part_.words);
  }
  at::Tensor positions() const {
    return wide(
        "embedding.position.weight",
        model_.position == model::PositionKind::learned);
  }

  NormWeights norm(const std::string& name) const {
    return {
        wide(name + ".weight", true),
        wide(name + ".bias", model_.norm == model::NormKind::layer_norm)};
  }

  BlockWeights block(std::int64_t number) const {
    const std::string layer = fmt::format("layers.{}.", number);
    const std::vector<Stretch> ffn{part_.ffn};
    BlockWeights block{
        .input_norm = norm(layer + "input_norm"),
        .query_key_value = rows(
            layer + "attention.query_key_value",
            part_.query_key_value_rows(model_),
            model_.attention_bias),
        .dense = columns(
            layer + "attention.dense",
            part_.queries.times(model_.head_size),
            model_.attention_bias),
        .post_attention_norm = norm(layer + "post_attention_norm"),
        .gate = std::nullopt,
        .up = rows(layer + "mlp.up", ffn, model_.mlp_bias),
        .down = columns(layer + "mlp.down", part_.ffn, model_.mlp_bias)};
    if (model_.gated) {
      block.gate = rows(layer + "mlp.gate", ffn, model_.mlp_bias);
    }
    return block;
  }

  LinearWeights head(const at::Tensor& words) const {
    LinearWeights head =
        converted(model_.tied_head ? words : read_("head.weight", part_.words));
    if (model_.head_bias) {
      head.bias = read_("head.bias", part_.words).to(at::kFloat);
    }
    return head;
  }

 private:
  at::Tensor wide(const std::string& name, bool exists) const {
    return exists ? read_(name, std::nullopt).to(at::kFloat) : at::Tensor();
  }

  at::Tensor joined(
      const std::string& name,
      const std::vector<Stretch>& stretches) const {
    std::vector<at::Tensor> pieces;
    for (const Stretch& each : stretches) {
      pieces.push_back(read_(name, each));
    }
    return pieces.size() == 1 ? pieces[0] : at::cat(pieces);
  }

  /// A linear layer of which the rank has some outputs.
  LinearWeights rows(
      const std::string& name,
      const std::vector<Stretch>& stretches,
      bool bias) const {
    LinearWeights result = converted(joined(name + ".weight", stretches));
    if (bias) {
      result.bias = joined(name + ".bias", stretches).to(at::kFloat);
    }
    return result;
  }

  /// A linear layer of which the rank has some inputs.
  LinearWeights columns(
      const std::string& name,
      const Stretch& stretch,
      bool bias) const {
    LinearWeights result =
        converted(read_(name + ".weight", std::nullopt)
                      .narrow(1, stretch.begin, stretch.count)
                      .contiguous());
    result.bias = wide(name + ".bias", bias && part_.adds_bias);
    return result;
  }

  LinearWeights converted(const at::Tensor& weight) const {
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

  ReadRows read_;
  const models::ModelDescription& model_;
  const ModelPart& part_;
  std::optional<WeightType> numbers_;
};

DecoderWeights read_part(const ParameterReader& read, const ModelPart& part) {
  DecoderWeights weights;
  if (part.first_stage) {
    weights.words = read.words();
    weights.positions = read.positions();
  }
  for (std::int64_t i = part.layers.begin; i < part.layers.end(); ++i) {
    weights.blocks.push_back(read.block(i));
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
