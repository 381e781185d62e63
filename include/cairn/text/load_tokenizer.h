#pragma once

#include <cairn/text/tokenizer.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cairn::text {

/// What Megatron's tokenizer flags say; which members count depends on `type`.
struct TokenizerOptions {
  /// Megatron's --tokenizer-type. Empty: told from the files.
  std::string type;
  /// vocab.json, vocab.txt, or for CharTokenizer the text whose characters make
  /// the vocabulary or a saved CharVocabulary.
  std::filesystem::path vocab_file;
  std::filesystem::path merge_file; ///< merges.txt
  /// tokenizer.json, a folder that holds one, or a SentencePiece model.
  std::filesystem::path model_file;
  std::size_t vocab_size = 0; ///< NullTokenizer's
  /// Special tokens written in a text become their ids, as in Megatron-LM; off,
  /// they are ordinary text, as in Megatron-DeepSpeed.
  bool special_tokens_in_text = true;
  /// [CLS] and [SEP], or <s> and </s>, or what tokenizer.json asks for, around
  /// every text that is encoded, as in Megatron-LM.
  bool add_special_tokens = true;
  /// Byte-level BPE: a space before a text that does not start with one.
  /// Unset: as the tokenizer says, no for GPT-2 and RoBERTa.
  std::optional<bool> add_prefix_space{};
  /// --vocab-extra-ids: T5's sentinels <extra_id_N> after the vocabulary.
  /// Unset: 100 for BertWordPieceCase, as in Megatron-LM, else none.
  std::optional<int> extra_ids{};
  /// WordPiece: a longer word, in characters, is unknown. Megatron-LM has 100,
  /// Google's code in Megatron-DeepSpeed 200.
  std::size_t max_word_length = 100;
  /// WordPiece: words that are kept whole.
  std::vector<std::string> never_split{};
  std::optional<TokenId> null_eod{}; ///< NullTokenizer's; its last id otherwise
  std::optional<TokenId> null_pad{}; ///< NullTokenizer's; none otherwise
};

/// The names that `type` takes, for help and error messages.
std::vector<std::string> tokenizer_types();

/// Throws ConfigError for options that do not fit together, DataError for files
/// that are missing or broken.
std::shared_ptr<const Tokenizer> load_tokenizer(
    const TokenizerOptions& options);

} // namespace cairn::text
