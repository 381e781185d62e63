#include "corpus/clean/fix_text.h"

#include "base/internal/utf8.h"
#include "corpus/clean/mojibake.h"
#include "corpus/clean/unicode.h"
#include "corpus/wiki/character_reference.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/stringpiece.h>

#include <algorithm>
#include <string>

namespace cairn::corpus {
namespace {

/// True for plain ASCII without any character that a fix looks for.
bool is_simple(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    const unsigned char byte = static_cast<unsigned char>(c);
    return (byte >= 0x20 && byte < 0x7f && byte != '&') || byte == '\n' ||
        byte == '\t';
  });
}

/// The end of the escape sequence, such as "\x1b[31m", that begins at `at`;
/// `at` itself if there is none.
std::size_t end_of_escape(std::u32string_view text, std::size_t at) {
  if (text[at] != 0x1b || at + 1 == text.size() || text[at + 1] != '[') {
    return at;
  }
  std::size_t i = at + 2;
  while (i < text.size() &&
         ((text[i] >= '0' && text[i] <= '9') || text[i] == ';')) {
    ++i;
  }
  const bool ends = i < text.size() &&
      ((text[i] >= 'a' && text[i] <= 'z') ||
       (text[i] >= 'A' && text[i] <= 'Z'));
  return ends ? i + 1 : at;
}

bool is_useless(char32_t c) {
  return c < 0x09 || c == 0x0b || (c >= 0x0e && c < 0x20) || c == 0x7f ||
      (c >= 0x206a && c <= 0x206f) || c == 0xfeff ||
      (c >= 0xfff9 && c <= 0xfffc);
}

void append_fixed(std::string& out, char32_t c) {
  if (c >= 0x80 && c <= 0x9f) { // meant as Windows-1252, never as Latin-1
    c = windows_1252(c);
  }
  if (is_useless(c)) {
    return;
  }
  switch (c) {
    case 0x2018: // single quotation marks, and the apostrophe letter
    case 0x2019:
    case 0x201a:
    case 0x201b:
    case 0x02bc:
      out += '\'';
      return;
    case 0x201c:
    case 0x201d:
    case 0x201e:
    case 0x201f:
      out += '"';
      return;
    case 0x2028:
    case 0x2029:
    case 0x85:
      out += '\n';
      return;
    case 0x3000:
      out += ' ';
      return;
    case 0xfb00:
      out += "ff";
      return;
    case 0xfb01:
      out += "fi";
      return;
    case 0xfb02:
      out += "fl";
      return;
    case 0xfb03:
      out += "ffi";
      return;
    case 0xfb04:
      out += "ffl";
      return;
    case 0xfb05:
    case 0xfb06:
      out += "st";
      return;
    default:
      break;
  }
  if (c >= 0xff01 && c <= 0xff5e) { // full width
    c -= 0xff00 - 0x20;
  }
  append_utf8(out, c);
}

std::u32string decoded(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  std::size_t at = 0;
  while (at < text.size()) {
    out += next_code_point(text, at);
  }
  return out;
}

std::string normalized(std::string_view text) {
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* nfc = icu::Normalizer2::getNFCInstance(error);
  std::string out;
  icu::StringByteSink<std::string> sink(&out);
  const icu::StringPiece piece(
      text.data(),
      static_cast<std::int32_t>(text.size()));
  if (U_SUCCESS(error)) {
    nfc->normalizeUTF8(0, piece, sink, nullptr, error);
  }
  return U_SUCCESS(error) ? out : std::string(text);
}

std::string fix_once(std::string_view text) {
  // In a text with tags, references may be part of the markup.
  const bool has_tags = text.find('<') != std::string_view::npos;
  std::u32string codes =
      has_tags ? decoded(text) : decoded(decode_references(text));
  repair_mojibake(codes);
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < codes.size(); ++at) {
    if (const std::size_t end = end_of_escape(codes, at); end > at) {
      at = end - 1;
    } else if (codes[at] == '\r') {
      if (at + 1 == codes.size() || codes[at + 1] != '\n') {
        out += '\n';
      }
    } else {
      append_fixed(out, codes[at]);
    }
  }
  return normalized(out);
}

} // namespace

std::string fix_text(std::string_view text) {
  constexpr int most_rounds = 4; // "&amp;amp;lt;" takes three
  std::string fixed(text);
  for (int round = 0; round < most_rounds && !is_simple(fixed); ++round) {
    std::string next = fix_once(fixed);
    if (next == fixed) {
      break;
    }
    fixed = std::move(next);
  }
  return fixed;
}

} // namespace cairn::corpus
