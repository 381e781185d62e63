#pragma once

#include <cairn/text/tokenizer.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::text {

/// The ids that are not special tokens, for text shown to a reader.
std::vector<TokenId> without_special(
    const Tokenizer& tokenizer,
    std::span<const TokenId> ids);

/// Removes spaces as Hugging Face's libraries do for English text: before . ? !
/// and the comma, around a lone apostrophe, and before the n't, 'm, 's, 've and
/// 're that a scheme has cut off. Also turns "do not" into "don't".
std::string clean_up_spaces(std::string_view text);

} // namespace cairn::text
