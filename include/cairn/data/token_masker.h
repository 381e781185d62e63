#pragma once

#include <cairn/base/numpy_random.h>
#include <cairn/data/masked_vocabulary.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cairn::data {

struct MaskingOptions {
  double probability = 0.15; ///< --mask-prob
  int max_ngram = 3;         ///< words that may be masked in one go
  bool whole_words = true;   ///< the pieces of a word together
  /// Words masked in one go are drawn from a geometric distribution with p 0.2,
  /// as in SpanBERT; otherwise n has a weight of 1/n.
  bool geometric = false;
  bool favor_longer = false; ///< the weights of 1 to max_ngram reversed
  /// As many tokens again change places among themselves.
  bool permute = false;

  /// Throws ConfigError for what cannot be done.
  void check() const;
};

/// What a token that was chosen becomes.
enum class MaskReplacement {
  always_mask,
  bert, ///< the mask in 80%, a random token in 10%, itself in 10%
};

/// A sequence after masking, and the memory for making it: kept from sample to
/// sample, so that masking allocates nothing.
struct MaskedTokens {
  /// Chosen together: places [begin, end) of `positions`.
  struct Span {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
  };

  std::vector<std::int64_t> tokens;
  /// Where tokens were chosen, span after span; after them those that were
  /// permuted.
  std::vector<std::uint32_t> positions;
  std::vector<Span> spans; ///< in the order of the text

  struct Scratch {
    std::vector<std::uint32_t> pieces;   ///< positions that may be masked
    std::vector<std::uint32_t> words;    ///< first piece of each, and the end
    std::vector<std::uint32_t> order;    ///< of the words, shuffled
    std::vector<std::uint32_t> permuted; ///< positions
    std::vector<std::int64_t> displaced; ///< the tokens that were there
    std::vector<std::uint8_t> taken;     ///< for each position
  } scratch;
};

/// Chooses tokens to be predicted, draw for draw as Megatron's masked datasets.
/// One difference: Megatron permutes with numpy's global generator, so that a
/// sample depends on what was read before; here all draws are the sample's own.
class TokenMasker {
 public:
  TokenMasker(
      MaskedVocabulary vocabulary,
      MaskingOptions options,
      MaskReplacement replacement);

  const MaskedVocabulary& vocabulary() const noexcept { return vocabulary_; }

  /// `tokens` are left as they are; [CLS] and [SEP] among them are never
  /// chosen. At most probability * target_length tokens are. An id outside the
  /// vocabulary is a DataError.
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
