#pragma once

#include "generate/decoder.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cairn::generate {

/// A token that a step computes.
struct TokenRow {
  std::size_t place = 0; ///< of its text in the decoder
  std::int64_t token = 0;
  std::int64_t position = 0;
  bool scored = false; ///< true when its scores are wanted
  /// Tokens that its text has, computed or not.
  std::int64_t text_length = 0;

  bool operator==(const TokenRow&) const = default;
};

/// The tokens of pieces, one after the other.
inline std::vector<TokenRow> rows_of(std::span<const Piece> pieces) {
  std::vector<TokenRow> rows;
  for (const Piece& piece : pieces) {
    const auto end = static_cast<std::int64_t>(piece.text.size());
    for (std::int64_t i = piece.begin; i < end; ++i) {
      rows.push_back(
          {piece.place,
           piece.text[static_cast<std::size_t>(i)],
           i,
           i >= end - piece.scored,
           std::ssize(piece.all)});
    }
  }
  return rows;
}

} // namespace cairn::generate
