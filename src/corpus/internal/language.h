#pragma once

#include <span>
#include <string_view>

namespace cairn::corpus {

/// The language of a text, by its script and its sequences of letters: a code
/// such as "en", or "" when no known language is convincing. A sentence is
/// often enough, a word is not.
std::string_view language_of(std::string_view text);

/// Every code that language_of() can return.
std::span<const std::string_view> known_languages();

} // namespace cairn::corpus
