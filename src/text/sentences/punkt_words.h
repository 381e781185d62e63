#pragma once

#include "text/internal/python_text.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

// Punkt's way of cutting a line into words: at whitespace, and at punctuation
// other than the period.
namespace cairn::text::punkt {

// Kinds of ASCII characters; the scanner treats all other bytes as letters.
inline constexpr std::uint8_t ends_sentence = 1; ///< . ? !
inline constexpr std::uint8_t not_in_words = 2;
inline constexpr std::uint8_t starts_no_word = 4;
inline constexpr std::uint8_t may_end_word = 8; ///< any that can end a word

inline constexpr auto character_kinds = [] {
  std::array<std::uint8_t, 256> kinds{};
  const auto mark = [&](std::string_view characters, unsigned kind) {
    for (const char c : characters) {
      auto& mine = kinds[static_cast<unsigned char>(c)];
      mine = static_cast<std::uint8_t>(mine | kind);
    }
  };
  mark(".?!", ends_sentence);
  mark(")\";}]*:@'({[?!", not_in_words | may_end_word);
  mark("(\"`{[:;&#*@)}]-,", starts_no_word);
  mark("-.,", may_end_word);
  for (int c = 0; c < 256; ++c) {
    // A character that begins with 0xc2 or above may be a space.
    if (c >= 0xc2 ||
        (c < 0x80 && python::is_ascii_space(static_cast<char>(c)))) {
      kinds[static_cast<std::size_t>(c)] |= may_end_word;
    }
  }
  return kinds;
}();

constexpr bool is_a(std::uint8_t kind, char c) {
  return (character_kinds[static_cast<unsigned char>(c)] & kind) != 0;
}

/// The words of a text, one line after the other.
class Words {
 public:
  explicit Words(std::string_view text) : text_(text) {}

  /// The next word, a view into the text; empty at the end.
  std::string_view next();

 private:
  std::string_view text_;
  std::string_view line_; ///< the rest of the line, without its line end
};

} // namespace cairn::text::punkt
