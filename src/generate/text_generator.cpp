#include <cairn/generate/generate.h>

#include "base/internal/utf8.h"

#include <cairn/base/error.h>

#include <algorithm>
#include <utility>

namespace cairn::generate {
namespace {

std::vector<text::TokenId> ids_of(const TextGenerator::Tokens& tokens) {
  return {tokens.begin(), tokens.end()};
}

} // namespace

TextGenerator::TextGenerator(
    std::shared_ptr<const text::Tokenizer> tokenizer,
    std::shared_ptr<models::Transformer> model,
    GenerateOptions options)
    : tokenizer_(std::move(tokenizer)),
      encoder_(tokenizer_->make_encoder()),
      model_(std::move(model)),
      options_(std::move(options)) {
  require_left_to_right(model_->description());
  const text::SpecialIds& special = tokenizer_->special();
  if (!options_.end) {
    options_.end = model_->description().end_token;
  }
  if (!options_.end) {
    options_.end =
        special.end_of_document ? special.end_of_document : special.end;
  }
  const auto known = static_cast<std::int64_t>(tokenizer_->vocab_size());
  options_.vocabulary = std::min(known, options_.vocabulary.value_or(known));
}

/// The model's begin token, where the tokenizer has it.
std::optional<std::int64_t> TextGenerator::begin_token() const {
  const auto begin = model_->description().begin_token;
  return begin && *begin < *options_.vocabulary ? begin : std::nullopt;
}

TextGenerator::Tokens TextGenerator::prompt(std::string_view text) {
  std::vector<text::TokenId> ids;
  encoder_->encode(text, ids);
  Tokens tokens(ids.begin(), ids.end());
  const text::SpecialIds& special = tokenizer_->special();
  while (!tokens.empty() &&
         (tokens.back() == options_.end ||
          tokens.back() == special.end_of_document ||
          tokens.back() == special.separator)) {
    tokens.pop_back();
  }
  const bool llama = model_->description().family == model::ModelFamily::llama;
  if (const auto begin = begin_token();
      llama && begin && !tokens.empty() && tokens.front() != *begin) {
    tokens.insert(tokens.begin(), *begin);
  }
  require_room(tokens, longest());
  return tokens;
}

TextGenerator::Tokens TextGenerator::no_prompt() const {
  if (const auto begin = begin_token()) {
    return {*begin};
  }
  const text::SpecialIds& special = tokenizer_->special();
  for (const auto& id : {special.end_of_document, special.begin, special.end}) {
    if (id) {
      return {*id};
    }
  }
  throw DataError(
      {.what = "the tokenizer has no end of document for a text to begin after",
       .remedy = "give a prompt"});
}

std::int64_t TextGenerator::longest() const {
  return longest_text(model_->description(), options_);
}

std::vector<GeneratedText> TextGenerator::after(
    const std::vector<Tokens>& prompts,
    const OnGrowth& on_growth) {
  GenerateOptions options = options_;
  std::vector<Tokens> so_far(prompts.size());
  if (on_growth) {
    options.on_token = [&](std::size_t text, std::int64_t token) {
      so_far[text].push_back(token);
      on_growth(text, so_far[text]);
    };
  }
  const auto continuations = generate(*model_, prompts, options);
  options_.first_text += prompts.size();
  std::vector<GeneratedText> texts;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    texts.push_back(
        {well_formed_utf8(decode(prompts[i], continuations[i].tokens)),
         static_cast<std::int64_t>(continuations[i].tokens.size()),
         continuations[i].finished});
  }
  return texts;
}

/// Decodes `more` behind its prompt, because some tokenizers write a token
/// differently where a text begins with it.
std::string TextGenerator::decode(const Tokens& prompt, const Tokens& more)
    const {
  Tokens both = prompt;
  both.insert(both.end(), more.begin(), more.end());
  const std::string head = tokenizer_->decode(ids_of(prompt));
  const std::string all = tokenizer_->decode(ids_of(both));
  return all.starts_with(head) ? all.substr(head.size())
                               : tokenizer_->decode(ids_of(more));
}

} // namespace cairn::generate
