#include "generate/parameter_reader.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <cairn/base/error.h>

#include <map>
#include <utility>

namespace cairn::generate {
namespace {

[[noreturn]] void lacks(const std::string& name) {
  throw CheckpointError(
      {.what = "no tensor for a parameter of the model", .values = name});
}

} // namespace

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

ParameterReader::ParameterReader(
    ReadRows read,
    const models::ModelDescription& model,
    const ModelPart& part,
    std::optional<WeightType> numbers)
    : read_(std::move(read)), model_(model), part_(part), numbers_(numbers) {}

at::Tensor ParameterReader::words() const {
  return read_("embedding.word.weight", part_.words);
}

at::Tensor ParameterReader::positions() const {
  return wide(
      "embedding.position.weight",
      model_.position == model::PositionKind::learned);
}

NormWeights ParameterReader::norm(const std::string& name) const {
  return {
      wide(name + ".weight", true),
      wide(name + ".bias", model_.norm == model::NormKind::layer_norm)};
}

NormWeights ParameterReader::head_norm(const std::string& name) const {
  return model_.query_key_norm ? norm(name) : NormWeights{};
}

BlockWeights ParameterReader::block(
    const std::string& prefix,
    std::int64_t layer) const {
  const std::int64_t experts = model::experts_in_layer(model_, layer);
  const std::string mlp_name = prefix + "mlp";
  return {
      .input_norm = norm(prefix + "input_norm"),
      .query_key_value = rows(
          prefix + "attention.query_key_value",
          part_.query_key_value_rows(model_),
          model::has_query_key_value_bias(model_)),
      .query_norm = head_norm(prefix + "attention.query_norm"),
      .key_norm = head_norm(prefix + "attention.key_norm"),
      .dense = columns(
          prefix + "attention.dense",
          part_.queries.times(model_.head_size),
          model_.attention_bias),
      .post_attention_norm = norm(prefix + "post_attention_norm"),
      .mlp = experts == 0 ? BlockMlp(mlp(mlp_name))
                          : BlockMlp(mixture(mlp_name, experts))};
}

MlpWeights ParameterReader::mlp(const std::string& name) const {
  const std::vector<Stretch> ffn{part_.ffn};
  MlpWeights mlp{
      .gate = std::nullopt,
      .up = rows(name + ".up", ffn, model_.mlp_bias),
      .down = columns(name + ".down", part_.ffn, model_.mlp_bias)};
  if (model_.gated) {
    mlp.gate = rows(name + ".gate", ffn, model_.mlp_bias);
  }
  return mlp;
}

MixtureWeights ParameterReader::mixture(
    const std::string& name,
    std::int64_t experts) const {
  MixtureWeights mixture{
      .router = wide_linear(name + ".router", false),
      .top_k = model_.experts->top_k};
  for (std::int64_t i = 0; i < experts; ++i) {
    mixture.experts.push_back(expert(name + ".experts.", i));
  }
  if (model_.experts->residual) {
    mixture.residual = MixtureWeights::Residual{
        .mlp = mlp(name + ".residual"),
        .coefficient = wide_linear(name + ".coefficient", true)};
  }
  return mixture;
}

MlpWeights ParameterReader::expert(const std::string& name, std::int64_t number)
    const {
  const auto own = [&](const std::string& parameter) {
    return read_(name + parameter, Stretch{number, 1})[0];
  };
  // A part has memory of its own: the whole need not stay.
  const auto part = [&](const at::Tensor& whole, std::int64_t dim) {
    return part_.is_shared()
        ? whole.narrow(dim, part_.ffn.begin, part_.ffn.count).clone()
        : whole;
  };
  const auto widen = [&](const std::string& product) {
    LinearWeights result = converted(part(own(product + ".weight"), 0));
    if (model_.mlp_bias) {
      result.bias = part(own(product + ".bias"), 0).to(at::kFloat);
    }
    return result;
  };
  MlpWeights expert{
      .gate = std::nullopt,
      .up = widen("up"),
      .down = converted(part(own("down.weight"), 1).contiguous())};
  if (model_.mlp_bias && part_.adds_bias) {
    expert.down.bias = own("down.bias").to(at::kFloat);
  }
  if (model_.gated) {
    expert.gate = widen("gate");
  }
  return expert;
}

LinearWeights ParameterReader::wide_linear(const std::string& name, bool bias)
    const {
  LinearWeights result{.weight = wide(name + ".weight", true)};
  result.matrix = {
      .data = result.weight.const_data_ptr(),
      .numbers = kernels::cpu::WeightNumbers::fp32,
      .inputs = result.weight.size(1)};
  result.outputs = result.weight.size(0);
  result.bias = wide(name + ".bias", bias);
  return result;
}

CrossWeights ParameterReader::cross_attention(const std::string& prefix) const {
  const std::string name = prefix + "cross_attention.";
  const Stretch queries = part_.queries.times(model_.head_size);
  return {
      .query = rows(name + "query", {queries}, model_.attention_bias),
      .key_value = rows(
          name + "key_value",
          {part_.groups.times(2 * model_.head_size)},
          model_.attention_bias),
      .dense = columns(name + "dense", queries, model_.attention_bias),
      .norm = norm(prefix + "post_cross_attention_norm")};
}

LinearWeights ParameterReader::head(const at::Tensor& words) const {
  LinearWeights head =
      converted(model_.tied_head ? words : read_("head.weight", part_.words));
  if (model_.head_bias) {
    head.bias = read_("head.bias", part_.words).to(at::kFloat);
  }
  return head;
}

at::Tensor ParameterReader::wide(const std::string& name, bool exists) const {
  return exists ? read_(name, std::nullopt).to(at::kFloat) : at::Tensor();
}

at::Tensor ParameterReader::joined(
    const std::string& name,
    const std::vector<Stretch>& stretches) const {
  std::vector<at::Tensor> pieces;
  for (const Stretch& each : stretches) {
    pieces.push_back(read_(name, each));
  }
  return pieces.size() == 1 ? pieces[0] : at::cat(pieces);
}

LinearWeights ParameterReader::rows(
    const std::string& name,
    const std::vector<Stretch>& stretches,
    bool bias) const {
  LinearWeights result = converted(joined(name + ".weight", stretches));
  if (bias) {
    result.bias = joined(name + ".bias", stretches).to(at::kFloat);
  }
  return result;
}

LinearWeights ParameterReader::columns(
    const std::string& name,
    const Stretch& stretch,
    bool bias) const {
  LinearWeights result = converted(read_(name + ".weight", std::nullopt)
                                       .narrow(1, stretch.begin, stretch.count)
                                       .contiguous());
  result.bias = wide(name + ".bias", bias && part_.adds_bias);
  return result;
}

LinearWeights ParameterReader::converted(const at::Tensor& weight) const {
  using kernels::cpu::WeightNumbers;
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

} // namespace cairn::generate
