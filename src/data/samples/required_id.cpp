#include "data/samples/required_id.h"

#include <cairn/base/error.h>

#include <fmt/format.h>

namespace cairn::data {

std::int64_t required_id(
    std::optional<text::TokenId> id,
    std::string_view name,
    std::string_view dataset) {
  if (!id) {
    throw ConfigError(
        {.what = fmt::format(
             "the tokenizer has no {} token, which a {} dataset needs",
             name,
             dataset),
         .remedy = "use a vocabulary that was made for it"});
  }
  return *id;
}

} // namespace cairn::data
