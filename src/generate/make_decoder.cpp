#include "generate/make_decoder.h"

#include "generate/available_memory.h"
#include "generate/cached_decoder.h"
#include "generate/gpu_decoder.h"
#include "generate/t5_decoder.h"
#include "generate/whole_text_decoder.h"

#include <cairn/base/error.h>

#include <algorithm>
#include <utility>

namespace cairn::generate {
namespace {

CacheShape cache_of(
    const models::ModelDescription& model,
    const TextBatchOptions& options) {
  const bool is_t5 = model::kind_of(model.family) == model::ModelKind::t5;
  CacheShape shape{
      .layers = is_t5 ? model.decoder_layers : model.layers,
      .heads = model.key_value_heads,
      .head_size = model.head_size,
      .page_tokens = options.page_tokens};
  const auto pages = [&](std::int64_t tokens) {
    return (tokens + shape.page_tokens - 1) / shape.page_tokens;
  };
  if (options.cache_tokens) {
    shape.most_pages = pages(*options.cache_tokens);
    return shape;
  }
  const std::int64_t page_bytes =
      shape.page_floats() * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t parts = is_t5 ? 2 : 1; // the sources are kept as well
  const std::int64_t most =
      std::max<std::int64_t>(1, available_memory() / 2 / parts / page_bytes);
  shape.most_pages = model.position == model::PositionKind::relative
      ? most // texts have no greatest length
      : std::min(most, options.most_texts * pages(model.positions));
  return shape;
}

/// Throws ConfigError for what is done with left-to-right models only.
void check_t5(bool on_cpu, const TextBatchOptions& options) {
  if (!on_cpu || options.recompute) {
    throw ConfigError(
        {.what = "a T5 writes on the CPU, with kept keys and values",
         .where = options.recompute ? "--recompute" : "",
         .values = !on_cpu ? "it is on a GPU" : "whole texts are asked for"});
  }
}

/// The type of weights, keys and values on a GPU.
at::ScalarType gpu_type(
    std::optional<WeightType> asked,
    at::ScalarType of_model) {
  if (asked == WeightType::int8) {
    throw ConfigError(
        {.what = "a GPU takes no weights in int8",
         .where = "--weight-type",
         .remedy = "take bf16"});
  }
  return !asked                   ? of_model
      : asked == WeightType::bf16 ? at::kBFloat16
                                  : at::kFloat;
}

/// Throws ConfigError: this model keeps the numbers that it has.
void refuse_other_weights(const TextBatchOptions& options, const char* why) {
  if (options.weights) {
    throw ConfigError(
        {.what = "weights are not converted for this model",
         .where = "--weight-type",
         .values = why,
         .remedy = "leave it out"});
  }
}

} // namespace

std::unique_ptr<Decoder> make_decoder(
    std::shared_ptr<models::Transformer> model,
    const TextBatchOptions& options) {
  const models::ModelDescription& d = model->description();
  const at::Tensor first = model->parameters().front();
  const bool on_cpu = first.device().is_cpu();
  if (model::kind_of(d.family) == model::ModelKind::t5) {
    check_t5(on_cpu, options);
    return std::make_unique<T5Decoder>(
        d,
        T5Weights::of(*model, options.weights),
        cache_of(d, options),
        options.most_texts);
  }
  if (options.recompute || !(on_cpu || GpuDecoder::takes(d))) {
    refuse_other_weights(
        options,
        options.recompute ? "whole texts are computed anew"
            : d.query_key_norm
            ? "it has norms of queries and keys and is on a GPU"
            : d.parallel_residual
            ? "its attention and MLP stand side by side and it is on a GPU"
            : model::rotary_elements(d) != d.head_size
            ? "it turns a part of each head and is on a GPU"
            : "its heads are longer than 256 on a GPU");
    return std::make_unique<WholeTextDecoder>(std::move(model));
  }
  if (!on_cpu) {
    const at::ScalarType type = gpu_type(options.weights, first.scalar_type());
    if (model::has_experts(d) && type != first.scalar_type()) {
      refuse_other_weights(options, "it has experts and is on a GPU");
    }
    return std::make_unique<GpuDecoder>(*model, type, options);
  }
  return std::make_unique<CachedDecoder>(
      d,
      ModelPart::of(d),
      std::make_shared<const DecoderWeights>(
          DecoderWeights::of(*model, options.weights)),
      cache_of(d, options),
      options.most_texts);
}

} // namespace cairn::generate
