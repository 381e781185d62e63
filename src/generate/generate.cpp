#include <cairn/generate/generate.h>

#include "generate/choose_token.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <cairn/base/counter_random.h>
#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>

namespace cairn::generate {
namespace {

using model::ModelFamily;
using Tokens = std::vector<std::int64_t>;

/// A text that is not at its end.
struct Unfinished {
  std::size_t index; ///< number of its prompt
  /// Length of the prompt.
  std::size_t prompt;
  Tokens tokens; ///< prompt included
  CounterRandom random;
};

void check_options(const GenerateOptions& options) {
  const Sampling& sampling = options.sampling;
  const auto require = [](bool holds, const char* what) {
    if (!holds) {
      throw ConfigError({.what = what});
    }
  };
  require(sampling.temperature > 0, "a temperature is above 0");
  require(sampling.top_k >= 0, "top_k is not below 0");
  require(sampling.top_p >= 0 && sampling.top_p <= 1, "top_p is from 0 to 1");
  require(options.most_tokens > 0, "a text gets one token at least");
  require(options.longest.value_or(1) > 0, "a text has one token at least");
  require(
      options.vocabulary.value_or(1) > 0,
      "a token is chosen among one at least");
}

/// Length of the rows that the model computes. A GPU prepares its kernels anew
/// for every new length, which takes longer than computing a few more tokens.
/// With experts the rows are not padded: padding would take places that the
/// text needs.
std::int64_t row_length(
    std::size_t longest,
    const models::ModelDescription& model,
    at::Device device) {
  constexpr std::int64_t step = 64;
  const auto length = static_cast<std::int64_t>(longest);
  return device.is_cuda() && !model.experts
      ? std::min(model.positions, (length + step - 1) / step * step)
      : length;
}

/// The model's scores of the token after each text, [texts, vocabulary] on the
/// CPU. Shorter texts are padded at the end, where nothing looks.
at::Tensor next_logits(
    models::Transformer& model,
    std::span<const Unfinished> texts,
    at::Device device) {
  std::size_t longest = 0;
  Tokens last;
  for (const Unfinished& text : texts) {
    longest = std::max(longest, text.tokens.size());
    last.push_back(static_cast<std::int64_t>(text.tokens.size()) - 1);
  }
  const auto count = static_cast<std::int64_t>(texts.size());
  at::Tensor rows = at::full(
      {count, row_length(longest, model.description(), device)},
      0,
      at::kLong);
  for (std::int64_t i = 0; i < count; ++i) {
    std::ranges::copy(
        texts[static_cast<std::size_t>(i)].tokens,
        rows[i].mutable_data_ptr<std::int64_t>());
  }
  return model
      .forward(
          {.tokens = rows.to(device),
           .logits_at = at::tensor(last, at::kLong).to(device)})
      .logits.squeeze(1)
      .to(at::TensorOptions(at::kCPU).dtype(at::kFloat))
      .contiguous();
}

class Generation {
 public:
  Generation(models::Transformer& model, const GenerateOptions& options)
      : model_(model),
        options_(options),
        longest_(longest_text(model.description(), options)),
        device_(model.parameters().front().device()) {
    require_left_to_right(model.description());
    check_options(options);
    model.eval();
  }

  std::vector<Continuation> run(const std::vector<Tokens>& prompts) {
    for (const Tokens& prompt : prompts) {
      require_room(prompt, longest_);
    }
    results_.resize(prompts.size());
    std::vector<Unfinished> texts;
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      texts.push_back(
          {i,
           prompts[i].size(),
           prompts[i],
           CounterRandom(
               options_.seed,
               fmt::format("text {}", options_.first_text + i))});
    }
    // Models with experts compute one text at a time: several would compete for
    // the places at the experts.
    const std::size_t at_once =
        model_.description().experts ? 1 : prompts.size();
    while (!texts.empty()) {
      for (std::size_t i = 0; i < texts.size(); i += at_once) {
        extend(
            std::span(texts).subspan(i, std::min(at_once, texts.size() - i)));
      }
      std::erase_if(texts, [&](Unfinished& text) { return ended(text); });
    }
    return std::move(results_);
  }

 private:
  void extend(std::span<Unfinished> texts) const {
    const at::Tensor logits = next_logits(model_, texts, device_);
    const std::int64_t columns =
        std::min(logits.size(1), options_.vocabulary.value_or(logits.size(1)));
    for (std::size_t i = 0; i < texts.size(); ++i) {
      Unfinished& text = texts[i];
      const std::span<const float> row(
          logits[static_cast<std::int64_t>(i)].const_data_ptr<float>(),
          static_cast<std::size_t>(columns));
      text.tokens.push_back(choose_token(
          row,
          options_.sampling,
          text.random.uniform(text.tokens.size())));
      if (options_.on_token && text.tokens.back() != options_.end) {
        options_.on_token(text.index, text.tokens.back());
      }
    }
  }

  /// True when a text has come to its end, which is then kept.
  bool ended(Unfinished& text) {
    const bool finished = text.tokens.back() == options_.end;
    const auto length = static_cast<std::int64_t>(text.tokens.size());
    const auto prompt = static_cast<std::int64_t>(text.prompt);
    if (!finished && length < longest_ &&
        length - prompt < options_.most_tokens) {
      return false;
    }
    Continuation& result = results_[text.index];
    result.finished = finished;
    result.tokens.assign(
        text.tokens.begin() + prompt,
        text.tokens.end() - (finished ? 1 : 0));
    return true;
  }

  models::Transformer& model_;
  const GenerateOptions& options_;
  std::int64_t longest_;
  at::Device device_;
  std::vector<Continuation> results_;
};

} // namespace

std::int64_t longest_text(
    const models::ModelDescription& model,
    const GenerateOptions& options) {
  return std::min(model.positions, options.longest.value_or(model.positions));
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
        {.what = "text is generated by models that go from left to right",
         .values = std::string(model::name_of(model.family)),
         .remedy = "load a GPT or Llama"});
  }
}

std::vector<Continuation> generate(
    models::Transformer& model,
    const std::vector<std::vector<std::int64_t>>& prompts,
    const GenerateOptions& options) {
  const at::NoGradGuard no_grad;
  return Generation(model, options).run(prompts);
}

} // namespace cairn::generate
