#pragma once

#include <cairn/model/description.h>
#include <cairn/text/tokenizer.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace cairn::evaluate {

using TokenIds = std::vector<text::TokenId>;

/// Tokens that are scored after others.
struct TokenPair {
  TokenIds tokens; ///< of the context and the continuation
  std::int64_t scored = 0;
};

/// Makes a model's tokens of texts: with the begin token that a Llama was
/// trained with, and without the end that some tokenizers put after every text.
class ModelText {
 public:
  ModelText(
      std::shared_ptr<const text::Tokenizer> tokenizer,
      const model::ModelDescription& model);

  TokenIds encode(std::string_view text);
  /// The tokens of both texts together, without those of the context alone.
  /// Blanks at the end of the context count as the continuation's.
  TokenPair pair(std::string_view context, std::string_view continuation);

  /// The token after which a text from nothing begins: the model's begin token
  /// or the one between documents; empty if there is neither.
  std::optional<text::TokenId> before_text() const;

 private:
  std::optional<text::TokenId> begin_token() const;

  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::unique_ptr<text::Encoder> encoder_;
  model::ModelDescription model_;
};

} // namespace cairn::evaluate
