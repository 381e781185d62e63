#pragma once

#include <cairn/text/tokenizer.h>

#include <cstdint>
#include <span>

namespace cairn::evaluate {

/// Tokens that a model reads from left to right, and the last ones of them,
/// whose probabilities are asked for.
struct TextRow {
  std::span<const text::TokenId> tokens;
  /// Number of tokens at the end that are scored, each by the tokens before it.
  /// The first token of a row has nothing before it and is never scored.
  std::int64_t scored = 0;
};

/// The model's answer for a row.
struct RowScore {
  double loss = 0; ///< sum of the scored tokens' negative log-probabilities
  /// True when every scored token is the one that the model finds likeliest.
  bool all_likeliest = true;
};

} // namespace cairn::evaluate
