#pragma once

#include "serve/service.h"
#include "serve/shown_text.h"

#include <cairn/generate/text_batch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cairn::serve {

/// One text that a request asks for.
struct AskedText {
  generate::TextRequest request;
  std::vector<std::string> stops{};
  /// Ends the text after a token, which belongs to it: called with all tokens
  /// of the continuation.
  std::function<bool(const std::vector<generate::ScoredToken>&)> ends_after{};
};

/// What came of it.
struct Text {
  /// The prompt that the text continues. A T5 continues none.
  std::vector<std::int64_t> prompt;
  std::int64_t prompt_tokens = 0; ///< that the model read, T5's source included
  std::vector<generate::ScoredToken> prompt_scores{}; ///< from the second on
  std::vector<generate::ScoredToken> tokens{};        ///< without the end token
  ShownText shown;
  bool ended = false;
  bool by_length = false; ///< it could have gone on
};

/// All texts of one request. The functions are called on the queue's thread,
/// unless they say otherwise.
struct TextsCallbacks {
  /// The texts were taken. Called before anything else, on the thread of
  /// start_texts().
  std::function<void()> started{};
  /// A text has more to show, perhaps nothing. `from`: first new token of it.
  std::function<void(
      const Text& text,
      std::size_t index,
      std::string shown,
      std::size_t from)>
      grown{};
  /// All texts have ended.
  std::function<void(const std::vector<Text>& texts)> done{};
  /// The texts cannot be continued.
  std::function<void(const std::string& why)> failed{};
};

/// Starts the texts of a request; they are cancelled when its client leaves.
/// Throws ApiError, status 429, if the server has too many texts.
void start_texts(
    Service& service,
    const std::shared_ptr<Answering>& answering,
    std::vector<AskedText> asked,
    TextsCallbacks callbacks);

} // namespace cairn::serve
