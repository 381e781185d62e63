#pragma once

#include "text/python_text.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

// How Punkt cuts a line into words: at whitespace, and where punctuation other
// than the period stands.
namespace cairn::text::punkt {

// What an ASCII character can be; the rest are letters to the scanner.
inline constexpr std::uint8_t ends_sentence = 1; ///< . ? !
inline constexpr std::uint8_t not_in_words = 2;
inline constexpr std::uint8_t starts_no_word = 4;
inline constexpr std::uint8_t may_end_word = 8; ///< of all that do, the sum

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
    // From 0xc2 on a character begins that may be a space.
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
  std::string_view line_; ///< what is left of the line, with no line end
};

} // namespace cairn::text::punkt
