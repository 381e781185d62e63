#include "generate/check_prompt.h"

#include <cairn/base/error.h>
#include <cairn/generate/generate.h>
#include <fmt/format.h>

namespace cairn::generate {

void check_prompt(
    const std::vector<std::int64_t>& prompt,
    const model::ModelDescription& model,
    std::int64_t longest) {
  require_room(prompt, longest);
  for (const std::int64_t token : prompt) {
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

} // namespace cairn::generate
