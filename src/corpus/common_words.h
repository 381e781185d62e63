#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace cairn::corpus {

/// The words that hold a language's sentences together, in lower case, parted
/// by blanks.
struct CommonWords {
  std::string_view code;
  std::string_view words;
};

inline constexpr std::size_t most_languages = 27;

std::span<const CommonWords> common_words();

} // namespace cairn::corpus
