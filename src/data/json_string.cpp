#include "data/check_json.h"

#include <cairn/base/error.h>
#include <cairn/data/json_line.h>

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <cstring>

namespace cairn::data {
namespace {

[[noreturn]] void refuse_escape(std::string_view escape) {
  throw DataError(
      {.what = fmt::format("\"{}\" stands for no character", shown(escape)),
       .remedy = "every line must be valid JSON"});
}

/// The four hexadecimal digits of the \u escape that begins at `at`.
std::uint32_t unicode_escape(const char* at, const char* end) {
  std::uint32_t code = 0;
  if (end - at < 6) {
    refuse_escape({at, static_cast<std::size_t>(end - at)});
  }
  const auto [stop, error] = std::from_chars(at + 2, at + 6, code, 16);
  if (stop != at + 6 || error != std::errc()) {
    refuse_escape({at, 6});
  }
  return code;
}

char* put_utf8(char* to, std::uint32_t code) {
  const auto low = [&](int shift) {
    return static_cast<char>(0x80 | ((code >> shift) & 0x3f));
  };
  if (code < 0x80) {
    *to++ = static_cast<char>(code);
  } else if (code < 0x800) {
    *to++ = static_cast<char>(0xc0 | (code >> 6));
    *to++ = low(0);
  } else if (code < 0x10000) {
    *to++ = static_cast<char>(0xe0 | (code >> 12));
    *to++ = low(6);
    *to++ = low(0);
  } else {
    *to++ = static_cast<char>(0xf0 | (code >> 18));
    *to++ = low(12);
    *to++ = low(6);
    *to++ = low(0);
  }
  return to;
}

char simple_escape(char letter) {
  switch (letter) {
    case '"':
    case '\\':
    case '/':
      return letter;
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    default:
      return '\0';
  }
}

} // namespace

std::string_view unescape_in_place(std::span<char> text) {
  char* const begin = text.data();
  char* const end = begin + text.size();
  const auto find = [&](char* from) {
    return static_cast<char*>(
        std::memchr(from, '\\', static_cast<std::size_t>(end - from)));
  };
  char* from = find(begin);
  if (from == nullptr) {
    return {begin, text.size()};
  }
  char* to = from;
  while (from != end) {
    // `from` is at a backslash, and so at an escape.
    if (end - from < 2) {
      refuse_escape({from, 1});
    }
    if (from[1] == 'u') {
      std::uint32_t code = unicode_escape(from, end);
      std::size_t length = 6;
      if (code >= 0xd800 && code < 0xdc00 && end - from >= 12 &&
          from[6] == '\\' && from[7] == 'u') {
        const std::uint32_t second = unicode_escape(from + 6, end);
        if (second >= 0xdc00 && second < 0xe000) {
          code = 0x10000 + ((code - 0xd800) << 10) + (second - 0xdc00);
          length = 12;
        }
      }
      if (code >= 0xd800 && code < 0xe000) {
        refuse_escape({from, 6});
      }
      to = put_utf8(to, code);
      from += length;
    } else {
      const char letter = simple_escape(from[1]);
      if (letter == '\0') {
        refuse_escape({from, 2});
      }
      *to++ = letter;
      from += 2;
    }
    char* const next = find(from);
    char* const stop = next == nullptr ? end : next;
    std::memmove(to, from, static_cast<std::size_t>(stop - from));
    to += stop - from;
    from = stop;
  }
  return {begin, static_cast<std::size_t>(to - begin)};
}

std::size_t find_invalid_utf8(std::string_view text) {
  const auto byte = [&](std::size_t at) {
    return at < text.size() ? static_cast<unsigned char>(text[at]) : 0U;
  };
  std::size_t at = 0;
  while (at < text.size()) {
    const unsigned lead = byte(at);
    std::size_t length = 1;
    unsigned least = 0x80; // of the second byte
    unsigned most = 0xbf;
    if (lead >= 0xc2 && lead <= 0xdf) {
      length = 2;
    } else if (lead >= 0xe0 && lead <= 0xef) {
      length = 3;
      least = lead == 0xe0 ? 0xa0 : 0x80; // no overlong forms,
      most = lead == 0xed ? 0x9f : 0xbf;  // no surrogates
    } else if (lead >= 0xf0 && lead <= 0xf4) {
      length = 4;
      least = lead == 0xf0 ? 0x90 : 0x80;
      most = lead == 0xf4 ? 0x8f : 0xbf; // nothing past U+10FFFF
    } else if (lead >= 0x80) {
      return at;
    }
    for (std::size_t i = 1; i < length; ++i) {
      const unsigned next = byte(at + i);
      if (next < (i == 1 ? least : 0x80) || next > (i == 1 ? most : 0xbf)) {
        return at;
      }
    }
    at += length;
  }
  return text.size();
}

} // namespace cairn::data
