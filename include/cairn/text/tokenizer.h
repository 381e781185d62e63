#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::text {

using TokenId = std::int32_t;

/// Ids that datasets and models ask for by role; empty where a scheme has no
/// such token.
struct SpecialIds {
  std::optional<TokenId> unknown;
  std::optional<TokenId> pad;
  std::optional<TokenId> begin; ///< bos
  std::optional<TokenId> end;   ///< eos
  std::optional<TokenId> end_of_document;
  std::optional<TokenId> classify;  ///< [CLS]
  std::optional<TokenId> separator; ///< [SEP]
  std::optional<TokenId> mask;
  std::vector<TokenId> sentinels; ///< T5's <extra_id_N>
};

/// Encodes a text of any length in bounded memory: the text is processed bit by
/// bit, and the ids are taken away in between.
struct Portions {
  /// Called when there are about `size` ids, to take them out of the vector. If
  /// empty, all ids stay in the vector.
  std::function<void()> take{};
  std::size_t size = std::size_t{1} << 18; ///< ids, or bytes of text

  /// Called by encoders after they have appended some ids.
  void offer(const std::vector<TokenId>& ids) const {
    if (ids.size() >= size && take) {
      take();
    }
  }
};

/// Turns text into ids, for one thread. It owns the cache and the scratch
/// memory, so that encoding neither locks nor allocates per token. It must not
/// outlive the tokenizer that made it.
class Encoder {
 public:
  virtual ~Encoder() = default;

  /// Appends the ids of `text`, which may be any bytes.
  void encode(std::string_view text, std::vector<TokenId>& ids) {
    encode(text, ids, {});
  }

  /// Appends the ids of `text` in portions. The portions do not change the ids.
  virtual void encode(
      std::string_view text,
      std::vector<TokenId>& ids,
      const Portions& portions) = 0;
};

/// A vocabulary and its rules. Immutable once loaded: any number of threads may
/// use one, each with its own encoder.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::unique_ptr<Encoder> make_encoder() const = 0;

  /// Encodes one text. For many texts, keep an encoder.
  std::vector<TokenId> encode(std::string_view text) const;

  /// The text of the ids; for byte-level schemes exactly the bytes encoded.
  /// Throws DataError for an id outside the vocabulary.
  virtual std::string decode(std::span<const TokenId> ids) const = 0;

  /// The number of ids, which is the largest id plus one.
  virtual std::size_t vocab_size() const = 0;

  /// The token as its vocabulary file spells it. Throws DataError for an id
  /// outside the vocabulary.
  virtual std::string token(TokenId id) const = 0;
  virtual std::optional<TokenId> find(std::string_view token) const = 0;

  virtual const SpecialIds& special() const = 0;

  /// True for an id that a reader should not see: the ids in special(), and
  /// others that the vocabulary marks as special.
  virtual bool is_special(TokenId id) const;
};

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
  /// For NullTokenizer, and for TikTokenizer: ids with the special ones. 0: as
  /// many as the file has, and at most 131072.
  std::size_t vocab_size = 0;
  /// TikTokenizer: where words end, "v1" or "v2" as Megatron calls it.
  std::string tiktoken_pattern = "v2";
  /// TikTokenizer: the first ids, which are special tokens.
  std::size_t tiktoken_special_count = 1000;
  /// TikTokenizer: their names, of the first of them. Empty: <unk>, <s>, </s>,
  /// <mask>, <pad>, <cls> and <sep>.
  std::vector<std::string> tiktoken_special_tokens{};
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
