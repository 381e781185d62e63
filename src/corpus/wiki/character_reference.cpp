#include "corpus/wiki/character_reference.h"

#include "base/internal/utf8.h"
#include "corpus/clean/unicode.h"
#include "corpus/wiki/named_references.h"

#include <unicode/utf.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace cairn::corpus {
namespace {

std::optional<char32_t> numbered(std::string_view digits) {
  const bool hexadecimal =
      !digits.empty() && (digits[0] == 'x' || digits[0] == 'X');
  digits.remove_prefix(hexadecimal ? 1 : 0);
  unsigned code = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] =
      std::from_chars(digits.data(), end, code, hexadecimal ? 16 : 10);
  if (error != std::errc() || stop != end) {
    return std::nullopt;
  }
  if (code >= 0x80 && code <= 0x9f) {
    return windows_1252(code);
  }
  const bool control =
      (code < 0x20 && code != '\t' && code != '\n') || code == 0x7f;
  if (control || U_IS_SURROGATE(code) || code > 0x10ffff) {
    return std::nullopt;
  }
  return code;
}

} // namespace

char32_t windows_1252(unsigned byte) {
  static constexpr std::array<char32_t, 32> codes{
      0x20ac, 0x81,   0x201a, 0x192,  0x201e, 0x2026, 0x2020, 0x2021,
      0x2c6,  0x2030, 0x160,  0x2039, 0x152,  0x8d,   0x17d,  0x8f,
      0x90,   0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014,
      0x2dc,  0x2122, 0x161,  0x203a, 0x153,  0x9d,   0x17e,  0x178};
  return codes[byte - 0x80];
}

std::optional<CharacterReference> reference_at(std::string_view text) {
  constexpr std::size_t longest = longest_reference_name + 1;
  if (!text.starts_with('&')) {
    return std::nullopt;
  }
  const std::size_t end = text.substr(0, longest).find(';');
  if (end == std::string_view::npos || end < 2) {
    return std::nullopt;
  }
  const std::string_view name = text.substr(1, end - 1);
  if (name[0] == '#') {
    const auto code = numbered(name.substr(1));
    return code ? std::optional(CharacterReference{*code, end + 1})
                : std::nullopt;
  }
  const NamedReference* const found = named_reference(text.substr(1, end));
  if (found == nullptr || found->second != 0) {
    return std::nullopt;
  }
  return CharacterReference{found->first, end + 1};
}

std::string decode_references(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t next = std::min(text.find('&', at), text.size());
    out.append(text, at, next - at);
    at = next;
    if (at == text.size()) {
      break;
    }
    if (const auto reference = reference_at(text.substr(at))) {
      append_utf8(out, reference->code);
      at += reference->length;
    } else {
      out += text[at++];
    }
  }
  return out;
}

} // namespace cairn::corpus
