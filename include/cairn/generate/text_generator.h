#pragma once

#include <cairn/generate/generate.h>
#include <cairn/text/tokenizer.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
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
/// Ids that the tokenizer does not have are never chosen, and its end of
/// document ends a text.
class TextGenerator {
 public:
  using Tokens = std::vector<std::int64_t>;
  /// `text` of the texts asked for has grown by a token.
  using OnGrowth = std::function<void(std::size_t text, const Tokens& so_far)>;

  TextGenerator(
      std::shared_ptr<const text::Tokenizer> tokenizer,
      std::shared_ptr<models::Transformer> model,
      GenerateOptions options);

  Tokens prompt(std::string_view text) const;
  /// For a text from nothing: what stands between documents. Throws DataError
  /// if the tokenizer has no such token.
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
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::shared_ptr<models::Transformer> model_;
  GenerateOptions options_;
};

} // namespace cairn::generate
