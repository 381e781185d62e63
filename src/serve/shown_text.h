#pragma once

#include <cairn/generate/text_batch.h>
#include <cairn/text/tokenizer.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::serve {

/// The text of tokens that come one after another, as a client may see it:
/// whole characters, and nothing of a stop string.
class ShownText {
 public:
  /// The tokenizer outlives the text.
  ShownText(
      const text::Tokenizer& tokenizer,
      std::vector<std::int64_t> prompt,
      std::vector<std::string> stops);

  /// Adds a token after the prompt, and returns what can be shown now.
  std::string add(std::int64_t token);
  /// What is still to be shown at the end of the text.
  std::string finish();

  /// True when a stop string has come; tokens after it are ignored.
  bool stopped() const noexcept { return stopped_; }
  /// Everything that was shown.
  const std::string& shown() const noexcept { return shown_; }

  /// What a token adds to the text of the token before it, if there is one:
  /// some tokenizers write a space only between tokens. The bytes may be a part
  /// of a character.
  static std::string piece(
      const text::Tokenizer& tokenizer,
      std::optional<std::int64_t> before,
      std::int64_t token);

 private:
  std::string decoded() const;
  std::string show_up_to(std::size_t end);

  const text::Tokenizer& tokenizer_;
  std::vector<text::TokenId> tokens_; ///< prompt and text
  std::string prompt_text_;
  std::size_t prompt_size_;
  std::vector<std::string> stops_;
  std::string text_; ///< after the prompt
  std::string shown_;
  bool stopped_ = false;
};

} // namespace cairn::serve
