#pragma once

#include "text/schemes/parts/added_tokens.h"
#include "text/schemes/parts/vocabulary.h"
#include "text/schemes/wordpiece/bert_normalizer.h"

#include <cairn/text/tokenizer.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cairn::text {

/// BERT's scheme. Text is cut into words at white space and punctuation, and
/// each word from the left into the longest pieces that the vocabulary has.
struct WordPiece {
  std::vector<AddedToken> added; ///< all are in the vocabulary
  std::optional<BertNormalizerSteps> normalizer;
  Vocabulary vocabulary;
  std::string continuing_prefix = "##"; ///< marks pieces inside a word
  TokenId unknown = 0;
  std::size_t max_word_length = 100; ///< in characters
  std::vector<std::string> never_split;
  std::vector<TokenId> before; ///< ids put before every text
  std::vector<TokenId> after;
  bool clean_up = true; ///< decoding drops spaces before punctuation
  SpecialIds special;
};

std::shared_ptr<const Tokenizer> make_tokenizer(WordPiece scheme);

/// Loads vocab.txt with BERT's special tokens.
std::shared_ptr<const Tokenizer> load_bert_tokenizer(
    const TokenizerOptions& options,
    bool lowercase);

} // namespace cairn::text
