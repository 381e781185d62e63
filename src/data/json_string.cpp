#include "data/check_json.h"

#include <cairn/base/error.h>
#include <cairn/data/json_line.h>

#include <fmt/format.h>

#include <array>
#include <bit>
#include <charconv>
#include <cstddef>
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

/// What a letter behind a backslash stands for; 0 for nothing.
constexpr std::array<char, 256> simple_escapes = [] {
  std::array<char, 256> table{};
  table['"'] = '"';
  table['\\'] = '\\';
  table['/'] = '/';
  table['b'] = '\b';
  table['f'] = '\f';
  table['n'] = '\n';
  table['r'] = '\r';
  table['t'] = '\t';
  return table;
}();

/// Where the next backslash is, or `end`.
const char* find_escape(const char* from, const char* end) {
  const auto* const found = static_cast<const char*>(
      std::memchr(from, '\\', static_cast<std::size_t>(end - from)));
  return found == nullptr ? end : found;
}

/// The bytes that are moved at a time, as one register holds them.
using Lanes [[gnu::vector_size(16)]] = unsigned char;
constexpr std::ptrdiff_t lane_count = sizeof(Lanes);

/// Which of them is the first backslash; lane_count for none.
std::ptrdiff_t first_backslash(Lanes lanes) {
  static_assert(std::endian::native == std::endian::little);
  const auto equal = lanes == '\\'; // all bits of those
  const auto halves = std::bit_cast<std::array<std::uint64_t, 2>>(equal);
  if ((halves[0] | halves[1]) == 0) {
    return lane_count;
  }
  return halves[0] != 0 ? std::countr_zero(halves[0]) / 8
                        : 8 + std::countr_zero(halves[1]) / 8;
}

/// How far a string is read and written.
struct Cursor {
  const char* from;
  char* to;
};

/// Moves what is before the next backslash. Texts with many short lines have an
/// escape every few words, so calls would count.
Cursor move_plain(Cursor at, const char* end) {
  // All may be stored where that does not reach what is not yet read.
  if (at.from - at.to >= lane_count) {
    while (end - at.from >= lane_count) {
      Lanes lanes;
      std::memcpy(&lanes, at.from, sizeof(lanes));
      std::memcpy(at.to, &lanes, sizeof(lanes));
      const std::ptrdiff_t count = first_backslash(lanes);
      at.from += count;
      at.to += count;
      if (count < lane_count) {
        return at;
      }
    }
  }
  const char* const stop = find_escape(at.from, end);
  const auto count = static_cast<std::size_t>(stop - at.from);
  if (at.from != at.to) {
    std::memmove(at.to, at.from, count);
  }
  return {stop, at.to + count};
}

Cursor move_unicode_escape(Cursor at, const char* end) {
  const char* const from = at.from;
  std::uint32_t code = unicode_escape(from, end);
  std::size_t length = 6;
  if (code >= 0xd800 && code < 0xdc00 && end - from >= 12 && from[6] == '\\' &&
      from[7] == 'u') {
    const std::uint32_t second = unicode_escape(from + 6, end);
    if (second >= 0xdc00 && second < 0xe000) {
      code = 0x10000 + ((code - 0xd800) << 10) + (second - 0xdc00);
      length = 12;
    }
  }
  if (code >= 0xd800 && code < 0xe000) {
    refuse_escape({from, 6});
  }
  return {from + length, put_utf8(at.to, code)};
}

/// Resolves the escape that it is at.
Cursor move_escape(Cursor at, const char* end) {
  if (end - at.from < 2) {
    refuse_escape({at.from, 1});
  }
  if (at.from[1] == 'u') {
    return move_unicode_escape(at, end);
  }
  const char letter = simple_escapes[static_cast<unsigned char>(at.from[1])];
  if (letter == '\0') {
    refuse_escape({at.from, 2});
  }
  *at.to = letter;
  return {at.from + 2, at.to + 1};
}

} // namespace

char* unescape(std::string_view text, char* to) {
  const char* const end = text.data() + text.size();
  Cursor at = move_plain({text.data(), to}, end);
  while (at.from != end) {
    at = move_plain(move_escape(at, end), end);
  }
  return at.to;
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
