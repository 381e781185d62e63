#include <cairn/generate/generate.h>

#include "generate/check_prompt.h"

#include <cairn/base/error.h>
#include <cairn/generate/text_batch.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace cairn::generate {
namespace {

using model::ModelFamily;
using Tokens = std::vector<std::int64_t>;

void check_options(const GenerateOptions& options) {
  check(options.sampling);
  const auto require = [](bool holds, const char* what) {
    if (!holds) {
      throw ConfigError({.what = what});
    }
  };
  require(options.most_tokens > 0, "a text gets one token at least");
  require(options.longest.value_or(1) > 0, "a text has one token at least");
}

TextRequest request_of(
    Beginning beginning,
    std::size_t number,
    const GenerateOptions& options,
    std::int64_t longest) {
  require_room(beginning.prompt, longest);
  const auto length = static_cast<std::int64_t>(beginning.prompt.size());
  return {
      .prompt = std::move(beginning.prompt),
      .source = std::move(beginning.source),
      .sampling = options.sampling,
      .most_tokens = std::min(options.most_tokens, longest - length),
      .seed = options.seed,
      .number = options.first_text + number,
      .end = options.end,
      .stops = options.stops,
      .vocabulary = options.vocabulary,
      .likeliest = options.likeliest,
      .of_prompt = options.of_prompt};
}

/// Texts that one call added to a batch. Cancels those that have not ended when
/// an exception cuts the call off.
class OwnTexts {
 public:
  explicit OwnTexts(TextBatch& batch) : batch_(batch) {}
  ~OwnTexts() {
    for (const auto& [number, index] : indices_) {
      batch_.cancel(number);
    }
  }
  OwnTexts(const OwnTexts&) = delete;
  OwnTexts& operator=(const OwnTexts&) = delete;

  void add(TextRequest request) {
    const std::size_t index = indices_.size();
    indices_[batch_.add(std::move(request))] = index;
  }
  /// Unset for a text of an earlier call, which was cut off.
  std::optional<std::size_t> index_of(std::uint64_t text) const {
    const auto found = indices_.find(text);
    return found == indices_.end() ? std::nullopt
                                   : std::optional(found->second);
  }

 private:
  TextBatch& batch_;
  std::map<std::uint64_t, std::size_t> indices_;
};

} // namespace

std::int64_t longest_text(
    const models::ModelDescription& model,
    const GenerateOptions& options) {
  const std::int64_t positions = positions_of(model);
  return std::min(positions, options.longest.value_or(positions));
}

void require_room(const Tokens& prompt, std::int64_t longest) {
  if (prompt.empty()) {
    throw DataError({.what = "a prompt without a token"});
  }
  if (static_cast<std::int64_t>(prompt.size()) >= longest) {
    throw DataError(
        {.what = "the prompt leaves no room for a continuation",
         .values = fmt::format(
             "{} tokens, and a text has at most {}",
             prompt.size(),
             longest),
         .remedy = "shorten it"});
  }
}

void require_left_to_right(const models::ModelDescription& model) {
  if (model.family != ModelFamily::gpt2 && model.family != ModelFamily::llama) {
    throw ConfigError(
        {.what =
             "text is written and scored by models that go from left to right",
         .values = std::string(model::name_of(model.family)),
         .remedy = "load a GPT or Llama"});
  }
}

void require_writes(const models::ModelDescription& model) {
  if (model::kind_of(model.family) != model::ModelKind::t5) {
    require_left_to_right(model);
  }
}

Beginning beginning_of(
    const models::ModelDescription& model,
    const Tokens& prompt,
    std::optional<std::int64_t> start) {
  if (model::kind_of(model.family) != model::ModelKind::t5) {
    return {prompt};
  }
  start = start ? start : model.decoder_start_token;
  if (!start) {
    throw ConfigError(
        {.what = "nothing says which token a T5's texts start with",
         .remedy = "give a tokenizer that has a begin token"});
  }
  return {{*start}, prompt};
}

std::vector<Continuation> generate(
    TextBatch& batch,
    const models::ModelDescription& model,
    const std::vector<Tokens>& prompts,
    const GenerateOptions& options) {
  check_options(options);
  const std::int64_t longest =
      std::min(longest_text(model, options), batch.longest());
  std::vector<TextRequest> requests;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    requests.push_back(request_of(
        beginning_of(model, prompts[i], options.start),
        i,
        options,
        longest));
  }
  OwnTexts texts(batch);
  for (TextRequest& request : requests) {
    texts.add(std::move(request));
  }
  std::vector<Continuation> results(prompts.size());
  while (!batch.empty()) {
    for (TextGrowth& growth : batch.step()) {
      const auto index = texts.index_of(growth.text);
      if (!index || growth.ending == Ending::cancelled) {
        continue;
      }
      Continuation& result = results[*index];
      result.finished = growth.ending == Ending::end_token;
      for (std::size_t i = 0; i < growth.tokens.size(); ++i) {
        ScoredToken& token = growth.tokens[i];
        if (i < growth.prompt_tokens) {
          result.prompt.push_back(std::move(token));
        } else if (!result.finished) {
          result.tokens.push_back(token.id);
          result.scored.push_back(std::move(token));
          if (options.on_token) {
            options.on_token(*index, result.tokens.back());
          }
          if (!growth.ending && options.is_complete &&
              options.is_complete(*index, result.tokens)) {
            batch.cancel(growth.text);
          }
        }
      }
    }
  }
  return results;
}

std::vector<Continuation> generate(
    models::Transformer& model,
    const std::vector<std::vector<std::int64_t>>& prompts,
    const GenerateOptions& options) {
  // The batch does not outlive this call.
  const std::shared_ptr<models::Transformer> borrowed(
      &model,
      [](models::Transformer*) {});
  TextBatch batch(borrowed, {});
  return generate(batch, model.description(), prompts, options);
}

} // namespace cairn::generate
