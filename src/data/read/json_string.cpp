#include "base/internal/utf8.h"
#include "data/internal/json_line.h"
#include "data/read/check_json.h"

#include <cairn/base/error.h>

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

/// The meaning of a letter after a backslash; 0 for an invalid escape.
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

/// The next backslash, or `end`.
const char* find_escape(const char* from, const char* end) {
  const auto* const found = static_cast<const char*>(
      std::memchr(from, '\\', static_cast<std::size_t>(end - from)));
  return found == nullptr ? end : found;
}

/// The bytes moved at a time: one register.
using Lanes [[gnu::vector_size(16)]] = unsigned char;
constexpr std::ptrdiff_t lane_count = sizeof(Lanes);

/// The index of the first backslash; lane_count if there is none.
std::ptrdiff_t first_backslash(Lanes lanes) {
  static_assert(std::endian::native == std::endian::little);
  using Pairs [[gnu::vector_size(16)]] = std::uint16_t;
  using Bytes [[gnu::vector_size(8)]] = std::uint8_t;
  // Packs four bits of each lane into one word, which takes one move to read.
  const auto equal = std::bit_cast<Pairs>(lanes == '\\') >> 4;
  const auto bits =
      std::bit_cast<std::uint64_t>(__builtin_convertvector(equal, Bytes));
  return bits == 0 ? lane_count : std::countr_zero(bits) / 4;
}

/// The places up to which a string has been read and written.
struct Cursor {
  const char* from;
  char* to;
};

/// Moves the bytes before the next backslash. Texts with many short lines have
/// an escape every few words, so the cost of function calls would matter.
Cursor move_plain(Cursor at, const char* end) {
  // A whole register may be stored if it does not reach unread bytes.
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

/// Resolves the escape at the cursor.
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

} // namespace cairn::data
