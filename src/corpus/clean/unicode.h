#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cairn::corpus {

inline constexpr char32_t replacement_character = 0xfffd;

/// The code point at `at`; moves `at` past it. Ill-formed bytes give the
/// replacement character.
char32_t next_code_point(std::string_view text, std::size_t& at);

/// `text` with ill-formed UTF-8 replaced, and without control characters other
/// than tab and line feed.
std::string printable(std::string_view text);

} // namespace cairn::corpus
