#include <cairn/generate/text_generator.h>

#include "base/utf8.h"

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
      model_(std::move(model)),
      options_(std::move(options)) {
  const text::SpecialIds& special = tokenizer_->special();
  if (const auto end =
          special.end_of_document ? special.end_of_document : special.end) {
    options_.end = *end;
  }
  options_.vocabulary = static_cast<std::int64_t>(tokenizer_->vocab_size());
}

TextGenerator::Tokens TextGenerator::prompt(std::string_view text) const {
  const auto ids = tokenizer_->encode(text);
  return {ids.begin(), ids.end()};
}

TextGenerator::Tokens TextGenerator::no_prompt() const {
  if (const auto begin = tokenizer_->special().begin;
      begin && !tokenizer_->special().end_of_document) {
    return {*begin};
  }
  if (!options_.end) {
    throw DataError(
        {.what = "the tokenizer has no end of document for a text to begin "
                 "after",
         .remedy = "give a prompt"});
  }
  return {*options_.end};
}

std::int64_t TextGenerator::longest() const {
  const std::int64_t positions = model_->description().positions;
  return std::min(positions, options_.longest.value_or(positions));
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

/// Some tokenizers write a token otherwise where a text begins with it.
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
