#include "corpus/clean/mojibake.h"

#include "corpus/wiki/character_reference.h"

#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include <array>
#include <optional>
#include <string_view>
#include <utility>

namespace cairn::corpus {
namespace {

/// The byte above 0x7f that Windows-1252 or Latin-1 shows as `c`; 0 if there is
/// none.
unsigned byte_shown_as(char32_t c) {
  if (c >= 0x80 && c <= 0xff) {
    return c;
  }
  if (c < 0x152 || c > 0x2122) {
    return 0;
  }
  for (unsigned byte = 0x80; byte < 0xa0; ++byte) {
    if (windows_1252(byte) == c) {
      return byte;
    }
  }
  return 0;
}

struct Sequence {
  char32_t meant;
  std::size_t length;
};

/// The UTF-8 sequence that the characters at `at` form when taken as bytes.
std::optional<Sequence> sequence_at(
    const std::u32string& text,
    std::size_t at) {
  const unsigned lead = byte_shown_as(text[at]);
  const std::size_t length = lead >= 0xf0 ? 4
      : lead >= 0xe0                      ? 3
      : lead >= 0xc2                      ? 2
                                          : 0;
  if (length == 0 || at + length > text.size()) {
    return std::nullopt;
  }
  std::array<char, 4> bytes{};
  for (std::size_t i = 0; i < length; ++i) {
    bytes[i] = static_cast<char>(byte_shown_as(text[at + i]));
  }
  UChar32 code = 0;
  std::size_t used = 0;
  U8_NEXT(bytes.data(), used, length, code);
  if (code < 0x80 || used != length || !::u_isdefined(code)) {
    return std::nullopt;
  }
  return Sequence{static_cast<char32_t>(code), length};
}

bool is_lower(char32_t c) {
  return ::u_islower(static_cast<UChar32>(c));
}

bool is_upper(char32_t c) {
  return ::u_isupper(static_cast<UChar32>(c));
}

/// True for marks that people put right after a letter. is_symbol() is for
/// symbols that they put after a capital letter.
bool ends_words(char32_t c) {
  return std::u32string_view(U"‘’“”–—…»›").find(c) != std::u32string_view::npos;
}
bool is_symbol(char32_t c) {
  return std::u32string_view(U"™®©°ªº«·•‹†‡").find(c) !=
      std::u32string_view::npos;
}

/// True when a sequence of two characters is more likely a mistake than
/// intended. Longer sequences are always mistakes.
bool is_mistake(
    const std::u32string& text,
    std::size_t at,
    bool follows_repair) {
  const char32_t lead = text[at];
  const char32_t second = text[at + 1];
  const char32_t before = at > 0 ? text[at - 1] : U' ';
  const char32_t behind = at + 2 < text.size() ? text[at + 2] : U' ';
  if (follows_repair || (second >= 0x80 && second <= 0x9f)) {
    return true; // control characters, which nobody writes
  }
  if (lead == U'Â' || lead == U'Ã') { // lead bytes of Western letters
    return !is_upper(before) || !(ends_words(second) || is_symbol(second));
  }
  // A capital letter or a symbol in the middle of a word.
  if ((is_lower(before) || is_lower(behind)) && !ends_words(second)) {
    return true;
  }
  // Words in Greek, Cyrillic and other scripts consist of many such pairs.
  return at + 3 < text.size() && sequence_at(text, at + 2).has_value();
}

/// Repairs one level; false when there was nothing to repair.
bool repair_once(std::u32string& text) {
  constexpr char32_t first_lead = 0xc2;
  constexpr char32_t last_lead = 0xf4;
  std::u32string out;
  bool follows_repair = false;
  bool repaired = false;
  for (std::size_t at = 0; at < text.size();) {
    const auto sequence = text[at] >= first_lead && text[at] <= last_lead
        ? sequence_at(text, at)
        : std::nullopt;
    follows_repair = sequence &&
        (sequence->length > 2 || is_mistake(text, at, follows_repair));
    if (follows_repair) {
      if (!repaired) {
        repaired = true;
        out.reserve(text.size());
        out.assign(text, 0, at);
      }
      out += sequence->meant;
      at += sequence->length;
    } else {
      if (repaired) {
        out += text[at];
      }
      ++at;
    }
  }
  if (repaired) {
    text = std::move(out);
  }
  return repaired;
}

} // namespace

void repair_mojibake(std::u32string& text) {
  constexpr int most_rounds = 4; // twice happens, more is rare
  for (int round = 0; round < most_rounds && repair_once(text); ++round) {
  }
}

} // namespace cairn::corpus
