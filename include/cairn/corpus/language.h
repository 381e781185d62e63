#pragma once

#include <span>
#include <string_view>

namespace cairn::corpus {

/// Which language a text is in, by its script and its commonest words: a code
/// such as "en", or "" when no known language is convincing. For texts of some
/// length: a sentence is often enough, a word is not.
std::string_view language_of(std::string_view text);

/// Every code that language_of() can give.
std::span<const std::string_view> known_languages();

} // namespace cairn::corpus
