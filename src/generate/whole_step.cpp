#include "generate/whole_step.h"

#include "generate/gpu_activation.h"
#include "kernels/internal/element_of.h"

#include <ATen/ops/zeros.h>
#include <cairn/base/error.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace cairn::generate {
namespace {

using kernels::cuda::TextStepLayer;
using kernels::cuda::TextStepNorm;
using kernels::cuda::TextStepProduct;
using kernels::cuda::TextStepShape;

const void* memory_of(const at::Tensor& x) {
  return x.defined() ? x.const_data_ptr() : nullptr;
}

/// True for layers like GPT-2's.
bool has_plain_layers(const model::ModelDescription& d) {
  return d.norm == model::NormKind::layer_norm &&
      d.norm_place == model::NormPlace::before && !d.gated &&
      d.key_value_heads == d.heads &&
      d.position == model::PositionKind::learned && !model::has_experts(d);
}

TextStepShape shape_of(
    const model::ModelDescription& d,
    const GpuWeights& weights) {
  return {
      .layers = static_cast<int>(d.layers),
      .hidden = static_cast<int>(d.hidden),
      .inner = static_cast<int>(d.ffn),
      .heads = static_cast<int>(d.heads),
      .head_size = static_cast<int>(d.head_size),
      .outputs = static_cast<int>(weights.head.weight.size(0)),
      .element = *kernels::element_of(weights.words.scalar_type())};
}

TextStepNorm norm_of(const GpuNorm& norm) {
  return {memory_of(norm.weight), memory_of(norm.bias)};
}

TextStepProduct product_of(const GpuLinear& linear) {
  return {memory_of(linear.weight), memory_of(linear.bias)};
}

/// The layers, and behind them the last norm and the product to the scores.
std::vector<TextStepLayer> layers_of(const GpuWeights& weights) {
  std::vector<TextStepLayer> layers;
  for (const GpuBlock& block : weights.blocks) {
    layers.push_back(
        {.norms =
             {norm_of(block.input_norm), norm_of(block.post_attention_norm)},
         .products = {
             product_of(block.query_key_value),
             product_of(block.dense),
             product_of(block.up),
             product_of(block.down)}});
  }
  layers.push_back(
      {.norms = {norm_of(weights.final_norm)},
       .products = {product_of(weights.head)}});
  return layers;
}

/// True when every tensor that the kernel reads 16 bytes at a time begins at
/// such a place and has its rows one after another.
bool can_be_copied(const GpuWeights& weights) {
  const auto fits = [](const at::Tensor& x) {
    return !x.defined() ||
        (x.is_contiguous() &&
         reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % 16 == 0);
  };
  bool all = fits(weights.words) && fits(weights.positions) &&
      fits(weights.final_norm.weight) && fits(weights.final_norm.bias) &&
      fits(weights.head.weight);
  for (const GpuBlock& block : weights.blocks) {
    for (const GpuNorm* norm :
         {&block.input_norm, &block.post_attention_norm}) {
      all = all && fits(norm->weight) && fits(norm->bias);
    }
    for (const GpuLinear* linear :
         {&block.query_key_value, &block.dense, &block.up, &block.down}) {
      all = all && fits(linear->weight) && fits(linear->bias);
    }
  }
  return all;
}

at::Tensor bytes(std::size_t count, at::Device device) {
  return at::zeros(
      {static_cast<std::int64_t>(count)},
      at::TensorOptions(device).dtype(at::kByte));
}

} // namespace

std::unique_ptr<WholeStep> WholeStep::make(
    const model::ModelDescription& model,
    const GpuWeights& weights,
    bool shares_units) {
  if (!has_plain_layers(model) || !can_be_copied(weights)) {
    return nullptr;
  }
  TextStepShape shape = shape_of(model, weights);
  shape.shares_units = shares_units;
  if (!kernels::cuda::takes(shape)) {
    return nullptr;
  }
  return std::unique_ptr<WholeStep>(new WholeStep(model, weights, shape));
}

WholeStep::WholeStep(
    const model::ModelDescription& model,
    const GpuWeights& weights,
    const TextStepShape& shape)
    : messages_(bytes(
          kernels::cuda::text_step_message_bytes(shape),
          weights.words.device())) {
  const std::vector<TextStepLayer> layers = layers_of(weights);
  at::Tensor host = bytes(layers.size() * sizeof(TextStepLayer), at::kCPU);
  std::memcpy(
      host.mutable_data_ptr(),
      layers.data(),
      layers.size() * sizeof(TextStepLayer));
  layers_ = host.to(weights.words.device());
  step_ = {
      .shape = shape,
      .activation = gpu_activation(model.activation),
      .epsilon = static_cast<float>(model.norm_epsilon),
      .scale = static_cast<float>(
          1 / std::sqrt(static_cast<double>(model.head_size))),
      .layers = static_cast<const TextStepLayer*>(layers_.const_data_ptr()),
      .embedded =
          {.columns = model.hidden,
           .element = shape.element,
           .words = memory_of(weights.words),
           .positions = memory_of(weights.positions),
           .offset = model.position_offset},
      .messages = messages_.mutable_data_ptr()};
}

void WholeStep::queue(
    const kernels::cuda::TextRows& row,
    const GpuCache& cache,
    const at::Tensor& scores,
    void* stream) {
  step_.row = row;
  step_.pages = cache.of_layer(0);
  step_.layer_step = 2 * cache.shape().heads * cache.shape().head_elements();
  step_.scores = scores.mutable_data_ptr<float>();
  if (const char* failure = kernels::cuda::run_step(step_, stream)) {
    throw Error(
        {.what = "the GPU refused a step of a text",
         .where = "all layers as one kernel",
         .values = failure});
  }
  ++step_.number;
}

} // namespace cairn::generate
