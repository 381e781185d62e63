#include <cairn/generate/generate.h>

#include "base/internal/utf8.h"
#include "generate/check_prompt.h"

#include <cairn/base/error.h>

#include <algorithm>
#include <utility>

namespace cairn::generate {
namespace {

std::vector<text::TokenId> ids_of(const TextGenerator::Tokens& tokens) {
  return {tokens.begin(), tokens.end()};
}

std::variant<TextBatch, BeamSearch> make_decoding(
    const TextModel& model,
    const TextGeneratorOptions& options) {
  if (options.beam_width > 0) {
    return BeamSearch(model, options.beam_width, options.batch);
  }
  return TextBatch(model, options.batch);
}

} // namespace

TextGenerator::TextGenerator(
    std::shared_ptr<const text::Tokenizer> tokenizer,
    TextModel model,
    GenerateOptions options,
    TextGeneratorOptions more)
    : tokenizer_(std::move(tokenizer)),
      encoder_(tokenizer_->make_encoder()),
      model_(std::move(model)),
      options_(std::move(options)),
      more_(std::move(more)),
      decoding_(make_decoding(model_, more_)) {
  const text::SpecialIds& special = tokenizer_->special();
  if (!options_.end) {
    options_.end = model_.description().end_token;
  }
  if (!options_.end) {
    options_.end =
        special.end_of_document ? special.end_of_document : special.end;
  }
  if (!options_.start) {
    options_.start = model_.description().decoder_start_token;
  }
  if (!options_.start) {
    options_.start = special.begin ? special.begin : special.classify;
  }
  const auto known = static_cast<std::int64_t>(tokenizer_->vocab_size());
  options_.vocabulary = std::min(known, options_.vocabulary.value_or(known));
}

bool TextGenerator::reads() const {
  return model::kind_of(model_.description().family) == model::ModelKind::t5;
}

/// The model's begin token, where the tokenizer has it.
std::optional<std::int64_t> TextGenerator::begin_token() const {
  const auto begin = model_.description().begin_token;
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
  if (reads()) {
    if (const auto end = model_.description().end_token) {
      tokens.push_back(*end);
    }
    check_source(tokens, model_.description());
    return tokens;
  }
  const bool begins = model::begins_texts(model_.description());
  if (const auto begin = begin_token();
      begins && begin && !tokens.empty() && tokens.front() != *begin) {
    tokens.insert(tokens.begin(), *begin);
  }
  require_room(tokens, longest());
  return tokens;
}

TextGenerator::Tokens TextGenerator::no_prompt() const {
  if (reads()) {
    throw DataError(
        {.what = "a T5 writes nothing without a text to read",
         .remedy = "give prompts with --sample-input-file"});
  }
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
  return longest_text(model_.description(), options_);
}

std::size_t TextGenerator::end_of(std::string_view text) const {
  std::size_t end = text.size();
  for (const std::string& stop : more_.stops) {
    end = std::min(end, text.find(stop));
  }
  return end;
}

std::vector<Continuation> TextGenerator::search(
    const std::vector<Tokens>& prompts,
    const OnGrowth& on_growth) {
  std::vector<Continuation> results;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const Beginning beginning =
        beginning_of(model_.description(), prompts[i], options_.start);
    require_room(beginning.prompt, longest());
    const BeamOptions options{
        .width = more_.beam_width,
        .length_penalty = more_.length_penalty,
        .most_tokens = std::min(
            options_.most_tokens,
            longest() - static_cast<std::int64_t>(beginning.prompt.size())),
        .end = options_.end,
        .stops = options_.stops,
        .vocabulary = options_.vocabulary,
        .source = beginning.source};
    Beam best =
        std::get<BeamSearch>(decoding_).after(beginning.prompt, options)[0];
    if (on_growth) {
      on_growth(i, best.tokens);
    }
    results.push_back(
        {.tokens = std::move(best.tokens), .finished = best.finished});
  }
  return results;
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
  if (!more_.stops.empty()) {
    options.is_complete = [&](std::size_t text, const Tokens& tokens) {
      const std::string all = decode(prompts[text], tokens);
      return end_of(all) < all.size();
    };
  }
  auto continuations = more_.beam_width > 0
      ? search(prompts, on_growth)
      : generate(
            std::get<TextBatch>(decoding_),
            model_.description(),
            prompts,
            options);
  options_.first_text += prompts.size();
  std::vector<GeneratedText> texts;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    Continuation& own = continuations[i];
    std::string text = decode(prompts[i], own.tokens);
    const std::size_t end = end_of(text);
    const bool stopped = end < text.size();
    text.resize(end);
    texts.push_back(
        {well_formed_utf8(text),
         static_cast<std::int64_t>(own.tokens.size()),
         own.finished || stopped,
         std::move(own.scored),
         std::move(own.prompt)});
  }
  return texts;
}

/// Decodes `more` behind its prompt, because some tokenizers write a token
/// differently where a text begins with it.
std::string TextGenerator::decode(const Tokens& prompt, const Tokens& more)
    const {
  if (reads()) {
    return tokenizer_->decode(ids_of(more));
  }
  Tokens both = prompt;
  both.insert(both.end(), more.begin(), more.end());
  const std::string head = tokenizer_->decode(ids_of(prompt));
  const std::string all = tokenizer_->decode(ids_of(both));
  return all.starts_with(head) ? all.substr(head.size())
                               : tokenizer_->decode(ids_of(more));
}

} // namespace cairn::generate
