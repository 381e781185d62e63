#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace cairn::corpus {

/// The most common words of a language, in lower case, separated by blanks.
struct CommonWords {
  std::string_view code;
  std::string_view words;
};

inline constexpr std::size_t most_languages = 27;

std::span<const CommonWords> common_words();

} // namespace cairn::corpus
