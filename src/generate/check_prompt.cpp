#include "generate/check_prompt.h"

#include <cairn/base/error.h>
#include <cairn/generate/generate.h>
#include <fmt/format.h>

#include <limits>

namespace cairn::generate {

void check_tokens(
    std::span<const std::int64_t> tokens,
    const model::ModelDescription& model) {
  for (const std::int64_t token : tokens) {
    if (token < 0 || token >= model.vocabulary) {
      throw DataError(
          {.what = "a token of the prompt is out of range",
           .values = fmt::format(
               "{}, where the model has {}",
               token,
               model.vocabulary),
           .remedy = "use the tokenizer that the model was made for"});
    }
  }
}

void check_prompt(
    const std::vector<std::int64_t>& prompt,
    const model::ModelDescription& model,
    std::int64_t longest) {
  require_room(prompt, longest);
  check_tokens(prompt, model);
}

void check_source(
    const std::vector<std::int64_t>& source,
    const model::ModelDescription& model) {
  const bool reads = model::kind_of(model.family) == model::ModelKind::t5;
  if (source.empty() == reads) {
    throw DataError(
        {.what = reads ? "a prompt without a token"
                       : "a text to read, for a model that has no encoder"});
  }
  const auto length = static_cast<std::int64_t>(source.size());
  if (reads && length > positions_of(model)) {
    throw DataError(
        {.what = "the prompt is longer than the model has positions",
         .values =
             fmt::format("{} tokens, {} positions", length, model.positions),
         .remedy = "shorten it"});
  }
  check_tokens(source, model);
}

std::int64_t positions_of(const model::ModelDescription& model) {
  return model.position == model::PositionKind::relative
      ? std::numeric_limits<std::int64_t>::max() / 2
      : model.positions;
}

} // namespace cairn::generate
