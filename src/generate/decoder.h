#pragma once

#include <cairn/generate/sampling.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace cairn::generate {

/// How the token after a piece is chosen: see choose_token().
struct TokenChoice {
  Sampling sampling; ///< with the `top_p` of this token
  double chance = 0; ///< in [0, 1), drawn for this token
  /// The number of first tokens that may be chosen.
  std::int64_t among = 0;
  /// The tokens of the text, each once, where they are penalized.
  std::span<const std::int64_t> penalized{};
  std::optional<std::int64_t> never{}; ///< a token that may not be chosen
};

/// Tokens of one text that a step computes.
struct Piece {
  std::size_t place; ///< of the text in the decoder
  /// All tokens of the text up to the last one that is computed.
  std::span<const std::int64_t> text;
  /// The first token that is computed. The text's tokens before it were
  /// computed by earlier steps.
  std::int64_t begin;
  /// The number of last tokens whose scores are wanted.
  std::int64_t scored;
  /// T5: the text that the encoder reads.
  std::span<const std::int64_t> source{};
  /// All tokens that the text has. Those behind `text` are computed later.
  std::span<const std::int64_t> all{};
  /// Above 0: the likeliest of so many first tokens is all that is read of the
  /// scores, where the decoder tells it (peaks()).
  std::int64_t peak_of = 0;
  /// Set: the chosen token is all that is read of the scores, where the decoder
  /// tells peaks. `peak_of` is 0.
  std::optional<TokenChoice> choice{};
};

/// What is known of a row of scores without reading it.
struct Peak {
  /// The likeliest of the first Piece::peak_of, or that of Piece::choice.
  std::int64_t token = 0;
  /// Its score; NaN if a score is NaN or infinite, and minus infinity if no
  /// token has a chance.
  float score = 0;
  float log_sum = 0; ///< logarithm of the sum of all exponentials
};

/// Computes a model's scores of the next token, for texts that grow. Each text
/// has a place, below the greatest number of texts.
class Decoder {
 public:
  Decoder() = default;
  virtual ~Decoder() = default;
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  /// Tokens that the decoder can remember of one text, when it is alone.
  virtual std::int64_t longest() const = 0;
  /// Tokens of prompts that a step computes at most, unless it is told a
  /// number: so many that they make good use of the device.
  virtual std::int64_t step_tokens() const { return 128; }
  /// Makes room for the first `tokens` tokens of a text. False if there is no
  /// room; what the text had is kept then.
  virtual bool reserve(std::size_t place, std::int64_t tokens) = 0;
  /// T5: tokens of a source that the decoder can remember, when its text is
  /// alone.
  virtual std::int64_t longest_source() const { return 0; }
  /// T5: makes room for what is remembered of a text's source, all of it. False
  /// if there is no room.
  virtual bool reserve_source(std::size_t /*place*/, std::int64_t /*tokens*/) {
    return true;
  }
  /// Forgets a text.
  virtual void release(std::size_t place) = 0;
  /// Makes the text at `to`, which has nothing, remember the first `tokens`
  /// tokens of the text at `from`. False if there is no room.
  virtual bool copy(std::size_t from, std::size_t to, std::int64_t tokens) = 0;
  /// Computes the pieces, for which there is room. Returns a row of scores for
  /// each token whose scores are wanted, in order, without padding of the
  /// vocabulary. The memory is valid until the next call. Rows of pieces with
  /// `peak_of` or `choice` may be left unset by a decoder that tells peaks.
  virtual std::span<const float> compute(std::span<const Piece> pieces) = 0;
  /// The peaks of the rows that compute() returned last. Empty: this decoder
  /// tells none.
  virtual std::span<const Peak> peaks() const { return {}; }
};

} // namespace cairn::generate
