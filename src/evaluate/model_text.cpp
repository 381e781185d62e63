#include "evaluate/model_text.h"

#include "text/internal/python_text.h"

#include <algorithm>
#include <string>
#include <utility>

namespace cairn::evaluate {

ModelText::ModelText(
    std::shared_ptr<const text::Tokenizer> tokenizer,
    const model::ModelDescription& model)
    : tokenizer_(std::move(tokenizer)),
      encoder_(tokenizer_->make_encoder()),
      model_(model) {}

/// The model's begin token, where the tokenizer has it.
std::optional<text::TokenId> ModelText::begin_token() const {
  const auto known = static_cast<std::int64_t>(tokenizer_->vocab_size());
  if (model_.begin_token && *model_.begin_token < known) {
    return static_cast<text::TokenId>(*model_.begin_token);
  }
  return std::nullopt;
}

TokenIds ModelText::encode(std::string_view text) {
  TokenIds ids;
  encoder_->encode(text, ids);
  const text::SpecialIds& special = tokenizer_->special();
  while (!ids.empty() &&
         (ids.back() == special.end || ids.back() == special.end_of_document ||
          ids.back() == special.separator)) {
    ids.pop_back();
  }
  const auto begin = begin_token();
  if (model::begins_texts(model_) && begin &&
      (ids.empty() || ids.front() != *begin)) {
    ids.insert(ids.begin(), *begin);
  }
  return ids;
}

TokenPair ModelText::pair(
    std::string_view context,
    std::string_view continuation) {
  const std::string_view before =
      context.substr(0, text::python::stripped_size(context));
  TokenPair result{.tokens = encode(std::string(context) += continuation)};
  const auto all = static_cast<std::int64_t>(result.tokens.size());
  const auto read = static_cast<std::int64_t>(encode(before).size());
  // At least the last token, should the texts' tokens grow together.
  result.scored = std::max<std::int64_t>(all - read, 1);
  return result;
}

std::optional<text::TokenId> ModelText::before_text() const {
  const text::SpecialIds& special = tokenizer_->special();
  for (const auto& id :
       {begin_token(), special.end_of_document, special.begin, special.end}) {
    if (id) {
      return id;
    }
  }
  return std::nullopt;
}

} // namespace cairn::evaluate
