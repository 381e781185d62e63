#pragma once

#include "text/added_tokens.h"
#include "text/merge_table.h"
#include "text/normalizer.h"
#include "text/regex_splitter.h"
#include "text/vocabulary.h"

#include <cairn/text/tokenizer.h>

#include <memory>
#include <optional>
#include <vector>

namespace cairn::text {

/// GPT-2's scheme and its relatives, in the order that a text passes through.
struct ByteLevelBpe {
  std::vector<AddedToken> added; ///< all are in the vocabulary
  std::vector<NormalizerStep> normalizer;
  bool add_prefix_space = false;
  std::vector<RegexSplitter> splits; ///< one after the other
  bool gpt2_split = true;            ///< GPT-2's own pattern, after those
  bool ignore_merges = false;        ///< for a word that is a token as a whole
  Vocabulary vocabulary;
  std::vector<MergeTable::Rule> merges;
  std::optional<TokenId> unknown_byte; ///< for bytes without a token
  std::vector<TokenId> before;         ///< around every text
  std::vector<TokenId> after;
  SpecialIds special;
};

std::shared_ptr<const Tokenizer> make_tokenizer(ByteLevelBpe scheme);

} // namespace cairn::text
