#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// Python's str and re rules about characters, for text in UTF-8. A byte that
// belongs to no character counts as a character that is neither space nor
// letter.
namespace cairn::text::python {

constexpr bool is_ascii(char c) {
  return static_cast<unsigned char>(c) < 0x80;
}

constexpr bool is_ascii_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r') || (c >= '\x1c' && c <= '\x1f');
}

/// The length in bytes of the whitespace character (`\s`) at `at`; 0 when there
/// is none.
inline std::size_t space_at(std::string_view text, std::size_t at) {
  if (is_ascii(text[at])) {
    return is_ascii_space(text[at]) ? 1 : 0;
  }
  const auto byte = [&](std::size_t i) {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0;
  };
  switch (byte(0)) {
    case 0xc2: // next line, no-break space
      return byte(1) == 0x85 || byte(1) == 0xa0 ? 2 : 0;
    case 0xe1: // ogham space mark
      return byte(1) == 0x9a && byte(2) == 0x80 ? 3 : 0;
    case 0xe2: // en quad to hair space, separators, narrow, mathematical
      return (byte(1) == 0x80 &&
              ((byte(2) >= 0x80 && byte(2) <= 0x8a) || byte(2) == 0xa8 ||
               byte(2) == 0xa9 || byte(2) == 0xaf)) ||
              (byte(1) == 0x81 && byte(2) == 0x9f)
          ? 3
          : 0;
    case 0xe3: // ideographic space
      return byte(1) == 0x80 && byte(2) == 0x80 ? 3 : 0;
    default:
      return 0;
  }
}

/// The first position from `at` on that is no whitespace.
inline std::size_t skip_space(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    const std::size_t length = space_at(text, at);
    if (length == 0) {
      break;
    }
    at += length;
  }
  return at;
}

/// The first position from `at` on that is whitespace.
inline std::size_t skip_word(std::string_view text, std::size_t at) {
  // Goes byte by byte, since no whitespace begins inside a character.
  for (; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if ((byte <= ' ' || byte >= 0xc2) && space_at(text, at) != 0) {
      break;
    }
  }
  return at;
}

/// Length without the whitespace at the end (`rstrip`).
std::size_t stripped_size(std::string_view text);

struct Character {
  char32_t code;
  std::size_t bytes;
};
/// The character at the front of `text`, which must not be empty.
Character first_character(std::string_view text);

bool is_upper(char32_t code);   ///< str.isupper
bool is_lower(char32_t code);   ///< str.islower
bool is_decimal(char32_t code); ///< `\d`
/// `[^\W\d]`: letters, numerals that are no decimal digits, and the underscore.
bool is_word_but_digit(char32_t code);

/// str.lower() of `text` into `out`.
void lower(std::string_view text, std::string& out);
/// str.capitalize(): the first character in title case, the others lower.
std::string capitalize(std::string_view text);

/// The words of str.split(): what stands between whitespace.
template <typename Visit>
void for_each_word(std::string_view text, Visit&& visit) {
  for (std::size_t at = skip_space(text, 0); at < text.size();) {
    const std::size_t end = skip_word(text, at);
    visit(text.substr(at, end - at));
    at = skip_space(text, end);
  }
}

/// str.strip()
inline std::string_view stripped(std::string_view text) {
  text = text.substr(0, stripped_size(text));
  return text.substr(skip_space(text, 0));
}

} // namespace cairn::text::python
