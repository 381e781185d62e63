#pragma once

#include <cairn/text/tokenizer.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cairn::inline base {
class NumpyRandom;
} // namespace cairn::base

namespace cairn::data {

/// The facts about a vocabulary that masking needs, as plain data.
struct MaskedVocabulary {
  text::SpecialIds special;
  /// 1 for each id whose token continues a word, such as WordPiece's "##ing".
  std::vector<std::uint8_t> continues_word;

  std::size_t size() const noexcept { return continues_word.size(); }

  static MaskedVocabulary of(const text::Tokenizer& tokenizer);
};

struct MaskingOptions {
  double probability = 0.15; ///< --mask-prob
  int max_ngram = 3;         ///< most words masked together
  bool whole_words = true;   ///< masks all pieces of a word together
  /// Draws the number of words masked together from a geometric distribution
  /// with p 0.2, as in SpanBERT. When false, n words have the weight 1/n.
  bool geometric = false;
  bool favor_longer = false; ///< reverses the weights of 1 to max_ngram
  /// Lets as many tokens again change places among themselves.
  bool permute = false;

  /// Throws ConfigError for options out of range or in conflict.
  void check() const;
};

/// The replacement of a chosen token.
enum class MaskReplacement {
  always_mask,
  bert, ///< 80% the mask, 10% a random token, 10% unchanged
};

/// A sequence after masking, and the scratch memory for it. Reused from sample
/// to sample, so that masking allocates nothing.
struct MaskedTokens {
  /// Tokens chosen together: [begin, end) in `positions`.
  struct Span {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
  };

  std::vector<std::int64_t> tokens;
  /// Positions of the chosen tokens, span after span, followed by the positions
  /// of permuted tokens.
  std::vector<std::uint32_t> positions;
  std::vector<Span> spans; ///< in the order of the text

  struct Scratch {
    std::vector<std::uint32_t> pieces;   ///< positions that may be masked
    std::vector<std::uint32_t> words;    ///< first piece of each, and the end
    std::vector<std::uint32_t> order;    ///< the words in shuffled order
    std::vector<std::uint32_t> permuted; ///< permuted positions
    std::vector<std::int64_t> displaced; ///< tokens before the permutation
    std::vector<std::uint8_t> taken;     ///< per position
  } scratch;
};

/// Chooses the tokens to be predicted, draw for draw as Megatron's masked
/// datasets do. One difference: Megatron permutes with numpy's global
/// generator, so its samples depend on earlier reads; here all draws belong to
/// the sample.
class TokenMasker {
 public:
  TokenMasker(
      MaskedVocabulary vocabulary,
      MaskingOptions options,
      MaskReplacement replacement);

  const MaskedVocabulary& vocabulary() const noexcept { return vocabulary_; }

  /// Masks a copy of `tokens` into `out`. Never chooses [CLS] or [SEP], and
  /// chooses at most probability * target_length tokens. Throws DataError for
  /// an id outside the vocabulary.
  void mask(
      std::span<const std::int64_t> tokens,
      std::int64_t target_length,
      NumpyRandom& random,
      MaskedTokens& out) const;

 private:
  void find_words(
      std::span<const std::int64_t> tokens,
      MaskedTokens::Scratch& scratch) const;
  void permute(double most, NumpyRandom& random, MaskedTokens& out) const;
  std::int64_t replacement(std::int64_t token, NumpyRandom& random) const;

  MaskedVocabulary vocabulary_;
  MaskingOptions options_;
  MaskReplacement replacement_;
  std::int64_t mask_ = 0;
  std::vector<double> ngram_probabilities_;
};

} // namespace cairn::data
