#pragma once

#include <cairn/generate/generate.h>
#include <cairn/text/tokenizer.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::generate {

struct GeneratedText {
  std::string text;        ///< what follows the prompt, in UTF-8
  std::int64_t length = 0; ///< in tokens
  bool finished = false;   ///< the model came to its end
};

/// Text in, text out.
///
///   TextGenerator storyteller(tokenizer, model, {.sampling = {.top_p = 0.9}});
///   storyteller.after({storyteller.prompt("Once upon a time")})[0].text
///
/// Ids that the tokenizer does not have are never chosen. A text ends where the
/// options say, else at the model's end token, else at the tokenizer's end of
/// document.
class TextGenerator {
 public:
  using Tokens = std::vector<std::int64_t>;
  /// `text` of the texts asked for has grown by a token.
  using OnGrowth = std::function<void(std::size_t text, const Tokens& so_far)>;

  /// Throws ConfigError for models that do not go from left to right.
  TextGenerator(
      std::shared_ptr<const text::Tokenizer> tokenizer,
      std::shared_ptr<models::Transformer> model,
      GenerateOptions options);

  /// The text's tokens, without an end that the tokenizer puts behind every
  /// text, and with the begin token that a Llama was trained with. Throws
  /// DataError if nothing can follow them.
  Tokens prompt(std::string_view text);
  /// For a text from nothing: the model's begin token, or what stands between
  /// documents. Throws DataError if there is neither.
  Tokens no_prompt() const;
  /// What `more` tokens are after a prompt; their last character may lack
  /// bytes.
  std::string decode(const Tokens& prompt, const Tokens& more) const;
  /// Of the longest text, prompt included, in tokens.
  std::int64_t longest() const;

  /// One after each prompt, computed together. Calls count their texts on, so
  /// that a text is the same however the calls divide them.
  std::vector<GeneratedText> after(
      const std::vector<Tokens>& prompts,
      const OnGrowth& on_growth = {});

 private:
  std::optional<std::int64_t> begin_token() const;

  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::unique_ptr<text::Encoder> encoder_;
  std::shared_ptr<models::Transformer> model_;
  GenerateOptions options_;
};

} // namespace cairn::generate
