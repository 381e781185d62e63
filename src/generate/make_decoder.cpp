#include "generate/make_decoder.h"

#include "generate/available_memory.h"
#include "generate/cached_decoder.h"
#include "generate/whole_text_decoder.h"

#include <cairn/base/error.h>

#include <algorithm>
#include <utility>

namespace cairn::generate {
namespace {

CacheShape cache_of(
    const models::ModelDescription& model,
    const TextBatchOptions& options) {
  CacheShape shape{
      .layers = model.layers,
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
  shape.most_pages = std::clamp(
      available_memory() / 2 / page_bytes,
      std::int64_t{1},
      options.most_texts * pages(model.positions));
  return shape;
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
  const bool on_cpu = model->parameters().front().device().is_cpu();
  if (!on_cpu || options.recompute || model::has_experts(d)) {
    refuse_other_weights(
        options,
        !on_cpu                 ? "it is on a GPU"
            : options.recompute ? "whole texts are computed anew"
                                : "it has experts");
    return std::make_unique<WholeTextDecoder>(std::move(model));
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
