#pragma once

#include <cairn/text/tokenizer.h>

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace cairn::text {

/// Two texts in BERT's form: [CLS] a [SEP] b [SEP].
struct PairEncoding {
  std::vector<TokenId> ids;
  std::vector<TokenId> token_types;    ///< 0 for a, 1 for b, 0 for padding
  std::vector<TokenId> attention_mask; ///< 0 for padding
};

struct PairOptions {
  /// The largest number of ids. The longer of the two texts is cut first, at
  /// its end.
  std::optional<std::size_t> max_length{};
  bool pad = false; ///< pads up to max_length
};

/// Joins the ids of two texts that were encoded without special tokens around
/// them. Throws ConfigError when the tokenizer lacks [CLS], [SEP] or, for
/// padding, [PAD], and when max_length leaves no room for the special tokens.
PairEncoding encode_pair(
    const Tokenizer& tokenizer,
    std::span<const TokenId> a,
    std::span<const TokenId> b,
    const PairOptions& options = {});

} // namespace cairn::text
