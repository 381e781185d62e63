#pragma once

#include <cairn/generate/text_batch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace cairn::generate {

struct BeamOptions {
  std::int64_t width = 4; ///< texts that are followed at a time
  /// The score of a text is the sum of its log-probabilities, divided by its
  /// number of new tokens to this power. Above 1 favours long texts.
  double length_penalty = 1;
  std::int64_t most_tokens = 64;     ///< after the prompt
  std::optional<std::int64_t> end{}; ///< the token that ends a text
  std::vector<std::int64_t> stops{}; ///< more tokens that end a text
  /// Choose among the ids below this only.
  std::optional<std::int64_t> vocabulary{};
  /// T5: the text that the encoder reads, as TextRequest has it.
  std::vector<std::int64_t> source{};
};

struct Beam {
  /// Tokens after the prompt, without the token that ended the text.
  std::vector<std::int64_t> tokens;
  double score = 0;
  bool finished = false; ///< true when a token ended the text
};

/// Searches for the likeliest continuations of a prompt, as transformers does:
/// keeps the best texts of each length, and ends when no text that is still
/// followed can become better than the finished ones.
class BeamSearch {
 public:
  /// `widest`: the greatest BeamOptions::width. Throws ConfigError for other
  /// models than GPT, Llama and T5. Of the options, `most_texts` is ignored.
  BeamSearch(
      TextModel model,
      std::int64_t widest,
      const TextBatchOptions& options = {});
  ~BeamSearch();
  BeamSearch(BeamSearch&&) noexcept;
  BeamSearch& operator=(BeamSearch&&) noexcept;

  /// The best texts after the prompt, best first, as many as there are beams.
  /// Throws DataError for a prompt that leaves no room for a token, and where
  /// the cache has no room for all beams.
  std::vector<Beam> after(
      const std::vector<std::int64_t>& prompt,
      const BeamOptions& options);

 private:
  class Parts;
  std::unique_ptr<Parts> parts_;
};

} // namespace cairn::generate
