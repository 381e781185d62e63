#pragma once

#include "generate/decoder.h"

#include <cairn/base/counter_random.h>
#include <cairn/generate/text_batch.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

namespace cairn::generate {

/// A text of a batch, and how far it is computed.
struct GrowingText {
  GrowingText(std::uint64_t name, TextRequest asked);

  std::int64_t length() const {
    return static_cast<std::int64_t>(tokens.size());
  }
  std::int64_t prompt_length() const {
    return static_cast<std::int64_t>(request.prompt.size());
  }
  /// True when only its last token is left to compute.
  bool decodes() const { return computed + 1 == length(); }

  /// Number of the tokens among the next `count` ones whose scores are wanted:
  /// the last token's, and where asked for those of the prompt that were not
  /// reported yet.
  std::int64_t wanted(std::int64_t count) const;

  /// The number of first tokens of which the likeliest is all that the text
  /// reads of its scores when the next `count` tokens are computed; 0: it reads
  /// more. `known`: the size of the vocabulary.
  std::int64_t peak_of(std::int64_t count, std::int64_t known) const;

  /// How the token after the next `count` tokens is chosen, where that token
  /// is all that the text reads of their scores. Of no use once the text grows.
  std::optional<TokenChoice> choice_after(
      std::int64_t count,
      std::int64_t known);

  /// Takes the token that a decoder found after its tokens as the next one.
  void take_peak(const Peak& peak, std::int64_t longest, TextGrowth& growth);

  /// Takes the scores after the tokens that a step computed, `rows` of them:
  /// reports the prompt's tokens and chooses the next token, where the whole
  /// text was computed. `peaks` are those of the rows, or empty.
  void take(
      std::span<const float> scores,
      std::int64_t rows,
      std::span<const Peak> peaks,
      std::int64_t longest,
      TextGrowth& growth);

  std::uint64_t number; ///< what the batch calls it
  TextRequest request;
  std::vector<std::int64_t> tokens; ///< prompt included
  std::int64_t computed = 0;        ///< first tokens that the decoder remembers
  /// True when its keys have LongRoPE's factors for long texts.
  bool has_long_keys = false;
  std::int64_t reported = 1;          ///< first tokens of the prompt
  std::optional<std::size_t> place{}; ///< in the decoder; unset: it waits
  bool cancelled = false;

 private:
  bool reads_scores() const;
  void note_choice();
  std::int64_t choose(std::span<const float> scores);
  std::optional<Ending> ending(std::int64_t longest) const;

  CounterRandom random_;
  double top_p_;
  /// The text's tokens, each once, of the first `noted_` ones.
  std::vector<std::int64_t> distinct_;
  std::unordered_set<std::int64_t> known_;
  std::size_t noted_ = 0;
};

} // namespace cairn::generate
