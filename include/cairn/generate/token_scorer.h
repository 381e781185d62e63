#pragma once

#include <cairn/generate/text_batch.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace cairn::generate {

/// Scores texts that are there already, with the decoder and the weights that
/// texts are written with.
///
///   TokenScorer scorer(model, {.weights = WeightType::int8});
///   scorer.score(tokens, 3)[0].log_probability // of the third last token
class TokenScorer {
 public:
  /// Throws ConfigError for other models than GPT and Llama. Of the options,
  /// `most_texts` is ignored.
  TokenScorer(TextModel model, TextBatchOptions options);
  ~TokenScorer();
  TokenScorer(TokenScorer&&) noexcept;
  TokenScorer& operator=(TokenScorer&&) noexcept;

  /// The last `scored` tokens, each by the tokens before it, with the
  /// `likeliest` tokens at its place. The first token of a text has nothing
  /// before it and is never scored. Throws DataError for a text that is longer
  /// than the model or the cache allows.
  std::vector<ScoredToken> score(
      std::span<const std::int64_t> tokens,
      std::int64_t scored,
      int likeliest = 0);

 private:
  class Parts;
  std::unique_ptr<Parts> parts_;
};

} // namespace cairn::generate
