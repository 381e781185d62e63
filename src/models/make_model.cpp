#include <cairn/models/transformer.h>

#include "models/families.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

namespace cairn::models {

std::shared_ptr<Transformer> make_model(
    const ModelDescription& description,
    const ModelOptions& options) {
  checkpoints::check(description, "the model");
  if (options.recompute_layers < 1) {
    throw ConfigError(
        {.what = "layers computed again at a time are at least 1",
         .where = "checkpoint-num-layers",
         .values = fmt::format("{}", options.recompute_layers)});
  }
  switch (description.family) {
    case checkpoints::ModelFamily::gpt2:
    case checkpoints::ModelFamily::llama:
      return make_causal_model(description, options);
    case checkpoints::ModelFamily::bert:
    case checkpoints::ModelFamily::roberta:
      return make_masked_model(description, options);
    case checkpoints::ModelFamily::t5:
      return make_encoder_decoder(description, options);
  }
  throw InternalError({.what = "a model family without a model"});
}

} // namespace cairn::models
