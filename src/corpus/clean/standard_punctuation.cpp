#include "corpus/clean/standard_punctuation.h"

#include "base/internal/utf8.h"
#include "corpus/clean/unicode.h"

#include <algorithm>

namespace cairn::corpus {
namespace {

constexpr char32_t em_dash = 0x2014;
constexpr char32_t left_guillemet = 0xab;
constexpr char32_t right_guillemet = 0xbb;

/// The ASCII sign that `c` is a variant of; else `c` itself.
char32_t plain(char32_t c) {
  switch (c) {
    case 0x60:
    case 0xb4:
    case 0x2bc:
    case 0x2018:
    case 0x2019:
    case 0x201a:
    case 0x201b:
    case 0x2039:
    case 0x203a:
      return '\'';
    case left_guillemet:
    case right_guillemet:
    case 0x201c:
    case 0x201d:
    case 0x201e:
    case 0x201f:
      return '"';
    case 0x2010: // hyphens, figure dash, en dash and minus
    case 0x2011:
    case 0x2012:
    case 0x2013:
    case 0x2212:
      return '-';
    case 0x2015:
      return em_dash;
    case 0xa0:
    case 0x202f:
    case 0x205f:
      return ' ';
    default:
      return c >= 0x2000 && c <= 0x200a ? U' ' : c;
  }
}

bool is_no_break(char32_t c) {
  return c == 0xa0 || c == 0x202f;
}

bool ends_line(std::string_view text, std::size_t at) {
  return at == text.size() || text[at] == '\n';
}

/// Removes blanks at the end, but not the indentation of a line.
void drop_blanks(std::string& out) {
  const std::size_t last = out.find_last_not_of(' ');
  if (last != std::string::npos && out[last] != '\n') {
    out.resize(last + 1);
  }
}

/// Moves `at` past the characters for which `skipped` is true.
template <typename Skipped>
void skip(std::string_view text, std::size_t& at, Skipped skipped) {
  while (at < text.size()) {
    std::size_t next = at;
    if (!skipped(next_code_point(text, next))) {
      return;
    }
    at = next;
  }
}

/// The text with ASCII signs only.
std::string with_plain_signs(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  std::size_t at = 0;
  while (at < text.size()) {
    const char32_t c = next_code_point(text, at);
    if (is_no_break(c)) { // in French they belong to guillemets
      skip(text, at, is_no_break);
      if (!text.substr(at).starts_with("»")) {
        out += ' ';
      }
    } else if (plain(c) == em_dash) {
      skip(text, at, [](char32_t each) {
        return plain(each) == ' ' || plain(each) == em_dash;
      });
      drop_blanks(out);
      const bool begins_line =
          out.empty() || out.back() == '\n' || out.back() == ' ';
      out += begins_line ? "-" : " -";
      out.append(ends_line(text, at) ? 0 : 1, ' ');
    } else if (c == 0x2026) {
      out += "...";
    } else {
      append_utf8(out, plain(c));
      if (c == left_guillemet) {
        skip(text, at, is_no_break);
      }
    }
  }
  return out;
}

/// Turns pairs of apostrophes into quotation marks and removes blanks around
/// signs. Blanks before several dots, and before a sign that does not end a
/// word (".NET", ":-)"), stay.
std::string with_plain_blanks(std::string_view text) {
  constexpr std::string_view marks = ",.;:!?";
  std::string out;
  out.reserve(text.size());
  std::size_t at = 0;
  while (at < text.size()) {
    const std::string_view rest = text.substr(at);
    if (rest.starts_with("''")) {
      out += '"';
      at += 2;
    } else if (marks.find(rest[0]) != marks.npos) {
      const std::size_t end =
          std::min(text.find_first_not_of(marks, at), text.size());
      if (!rest.starts_with("..") &&
          (ends_line(text, end) || text[end] == ' ')) {
        drop_blanks(out);
      }
      out.append(text, at, end - at);
      at = end;
    } else if (rest[0] == ')') {
      drop_blanks(out);
      out += ')';
      ++at;
    } else if (rest[0] == '(') {
      const bool opens = out.empty() ||
          std::string_view(" \n(").find(out.back()) != std::string_view::npos;
      out += '(';
      ++at;
      if (opens) {
        skip(text, at, [](char32_t c) { return c == ' '; });
      }
    } else {
      out += text[at++];
    }
  }
  return out;
}

} // namespace

std::string standard_punctuation(std::string_view text) {
  return with_plain_blanks(with_plain_signs(text));
}

} // namespace cairn::corpus
