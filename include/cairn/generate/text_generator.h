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
  std::string text;        ///< the text after the prompt, in UTF-8
  std::int64_t length = 0; ///< in tokens
  bool finished = false;   ///< the model chose its end token
};

/// Generates text from text.
///
///   TextGenerator storyteller(tokenizer, model, {.sampling = {.top_p = 0.9}});
///   storyteller.after({storyteller.prompt("Once upon a time")})[0].text
///
/// Ids that the tokenizer does not have are never chosen. A text ends at the
/// token that the options name, else at the model's end token, else at the
/// tokenizer's end of document.
class TextGenerator {
 public:
  using Tokens = std::vector<std::int64_t>;
  /// Called when text number `text` has grown by a token.
  using OnGrowth = std::function<void(std::size_t text, const Tokens& so_far)>;

  /// Throws ConfigError for models that do not go from left to right.
  TextGenerator(
      std::shared_ptr<const text::Tokenizer> tokenizer,
      std::shared_ptr<models::Transformer> model,
      GenerateOptions options);

  /// The tokens of a text, without the end that some tokenizers put after every
  /// text, and with the begin token that a Llama was trained with. Throws
  /// DataError if nothing can follow them.
  Tokens prompt(std::string_view text);
  /// The prompt of a text from nothing: the model's begin token, or the token
  /// between documents. Throws DataError if there is neither.
  Tokens no_prompt() const;
  /// The text of `more` tokens after a prompt. Its last character may lack
  /// bytes.
  std::string decode(const Tokens& prompt, const Tokens& more) const;
  /// Length of the longest text in tokens, prompt included.
  std::int64_t longest() const;

  /// Generates one text after each prompt, computed together. The texts of all
  /// calls are numbered in sequence, so a text is the same however the calls
  /// divide them.
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
