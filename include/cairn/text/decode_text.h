#pragma once

#include <cairn/text/tokenizer.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::text {

/// The ids without those of special tokens, to be decoded for a reader.
std::vector<TokenId> without_special(
    const Tokenizer& tokenizer,
    std::span<const TokenId> ids);

/// English text as it is written: no space before .?!, and before the n't, 'm,
/// 's, 've and 're that a scheme has cut off.
std::string clean_up_spaces(std::string_view text);

} // namespace cairn::text
