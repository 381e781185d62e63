#pragma once

#include "text/schemes/bpe/merge_table.h"
#include "text/schemes/bpe/regex_splitter.h"
#include "text/schemes/parts/added_tokens.h"
#include "text/schemes/parts/normalizer.h"
#include "text/schemes/parts/vocabulary.h"

#include <cairn/text/tokenizer.h>

#include <memory>
#include <optional>
#include <vector>

namespace cairn::text {

/// The byte-level BPE scheme of GPT-2 and its relatives. The members are in the
/// order in which a text passes through them.
struct ByteLevelBpe {
  std::vector<AddedToken> added; ///< all are in the vocabulary
  std::vector<NormalizerStep> normalizer;
  bool add_prefix_space = false;
  std::vector<RegexSplitter> splits; ///< applied one after another
  bool gpt2_split = true;            ///< GPT-2's own pattern, after `splits`
  bool ignore_merges = false;        ///< a word that is a token is not merged
  Vocabulary vocabulary;
  std::vector<MergeTable::Rule> merges;
  std::optional<TokenId> unknown_byte; ///< for bytes without a token
  std::vector<TokenId> before;         ///< ids put before every text
  std::vector<TokenId> after;
  SpecialIds special;
};

std::shared_ptr<const Tokenizer> make_tokenizer(ByteLevelBpe scheme);

} // namespace cairn::text
