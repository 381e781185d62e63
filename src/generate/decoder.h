#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace cairn::generate {

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
  /// Makes room for the first `tokens` tokens of a text. False if there is no
  /// room; what the text had is kept then.
  virtual bool reserve(std::size_t place, std::int64_t tokens) = 0;
  /// Forgets a text.
  virtual void release(std::size_t place) = 0;
  /// Makes the text at `to`, which has nothing, remember the first `tokens`
  /// tokens of the text at `from`. False if there is no room.
  virtual bool copy(std::size_t from, std::size_t to, std::int64_t tokens) = 0;
  /// Computes the pieces, for which there is room. Returns a row of scores for
  /// each token whose scores are wanted, in order, without padding of the
  /// vocabulary. The memory is valid until the next call.
  virtual std::span<const float> compute(std::span<const Piece> pieces) = 0;
};

} // namespace cairn::generate
