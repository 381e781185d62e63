#pragma once

#include <cairn/text/tokenizer.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cairn::text {

/// Megatron's tokenizer flags. `type` decides which members are used.
struct TokenizerOptions {
  /// Megatron's --tokenizer-type. If empty, the files decide.
  std::string type;
  /// vocab.json or vocab.txt; for CharTokenizer a saved CharVocabulary or the
  /// text whose characters make the vocabulary.
  std::filesystem::path vocab_file;
  std::filesystem::path merge_file; ///< merges.txt
  /// tokenizer.json, a folder that holds one, or a SentencePiece model.
  std::filesystem::path model_file;
  std::size_t vocab_size = 0; ///< for NullTokenizer
  /// Turns special tokens written in a text into their ids, as in Megatron-LM.
  /// When false they are ordinary text, as in Megatron-DeepSpeed.
  bool special_tokens_in_text = true;
  /// Puts special tokens around every encoded text, as Megatron-LM does: [CLS]
  /// and [SEP], <s> and </s>, or what tokenizer.json asks for.
  bool add_special_tokens = true;
  /// Byte-level BPE: puts a space before a text that does not start with one.
  /// Unset: the tokenizer's own setting, which is no for GPT-2 and RoBERTa.
  std::optional<bool> add_prefix_space{};
  /// Number of T5 sentinels <extra_id_N> after the vocabulary
  /// (--vocab-extra-ids). Unset: 100 for BertWordPieceCase, as in Megatron-LM,
  /// else none.
  std::optional<int> extra_ids{};
  /// WordPiece: longest word in characters; longer words are unknown.
  /// Megatron-LM has 100, Google's code in Megatron-DeepSpeed 200.
  std::size_t max_word_length = 100;
  /// WordPiece: words that are kept whole.
  std::vector<std::string> never_split{};
  std::optional<TokenId> null_eod{}; ///< NullTokenizer; default: the last id
  std::optional<TokenId> null_pad{}; ///< NullTokenizer; default: no padding
};

/// The values that `type` accepts, for help and error messages.
std::vector<std::string> tokenizer_types();

/// Loads a tokenizer. Throws ConfigError for options that do not fit together,
/// and DataError for files that are missing or broken.
std::shared_ptr<const Tokenizer> load_tokenizer(
    const TokenizerOptions& options);

} // namespace cairn::text
