#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace cairn::inline base {

/// A character of a text that may be any bytes: a byte that begins no
/// well-formed sequence is a character of its own, of length 1 and without a
/// code point.
struct Utf8Char {
  static constexpr char32_t invalid = 0xffffffff;

  char32_t code_point = invalid;
  std::uint32_t length = 1;

  bool valid() const { return code_point != invalid; }
};

/// The character at `at`, which must be before `end`. Surrogates, overlong
/// forms and code points above U+10FFFF are not well formed.
inline Utf8Char decode_utf8(const char* at, const char* end) {
  const auto byte = [at](int i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(at[i]));
  };
  const auto continues = [&](int i) { return (byte(i) & 0xc0) == 0x80; };
  const std::uint32_t first = byte(0);
  const auto left = end - at;
  if (first < 0x80) {
    return {first, 1};
  }
  if (first >= 0xc2 && first < 0xe0 && left >= 2 && continues(1)) {
    return {(first & 0x1f) << 6 | (byte(1) & 0x3f), 2};
  }
  if (first >= 0xe0 && first < 0xf0 && left >= 3 && continues(1) &&
      continues(2)) {
    const std::uint32_t c =
        (first & 0xf) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f);
    if (c >= 0x800 && (c < 0xd800 || c > 0xdfff)) {
      return {c, 3};
    }
  }
  if (first >= 0xf0 && first < 0xf5 && left >= 4 && continues(1) &&
      continues(2) && continues(3)) {
    const std::uint32_t c = (first & 7) << 18 | (byte(1) & 0x3f) << 12 |
        (byte(2) & 0x3f) << 6 | (byte(3) & 0x3f);
    if (c >= 0x10000 && c <= 0x10ffff) {
      return {c, 4};
    }
  }
  return {};
}

/// The last place at or before `at` where a character starts; the text's end if
/// the text is shorter than `at`. Never 0 for a text that is not empty and `at`
/// above 3.
inline std::size_t character_start(std::string_view text, std::size_t at) {
  if (at >= text.size()) {
    return text.size();
  }
  const auto continues = [&](std::size_t i) {
    return (static_cast<unsigned char>(text[i]) & 0xc0) == 0x80;
  };
  std::size_t start = at;
  while (start > 0 && at - start < 3 && continues(start)) {
    --start;
  }
  // The three bytes before `at` continue a character as well, so a character
  // that holds them all ends here.
  return continues(start) ? at : start;
}

/// The last character of a text that is not empty.
inline Utf8Char last_utf8(std::string_view text) {
  const char* const end = text.data() + text.size();
  for (std::uint32_t length = 1; length <= 4 && length <= text.size();
       ++length) {
    const Utf8Char c = decode_utf8(end - length, end);
    if (c.valid() && c.length == length) {
      return c;
    }
  }
  return {};
}

/// The end of the well-formed text that starts at `from`.
inline std::size_t valid_utf8_end(std::string_view text, std::size_t from = 0) {
  const char* const end = text.data() + text.size();
  const char* at = text.data() + from;
  while (at != end) {
    if (end - at >= 8) {
      std::uint64_t bytes = 0;
      std::memcpy(&bytes, at, 8);
      if ((bytes & 0x8080808080808080) == 0) {
        at += 8;
        continue;
      }
    }
    const Utf8Char c = decode_utf8(at, end);
    if (!c.valid()) {
      break;
    }
    at += c.length;
  }
  return static_cast<std::size_t>(at - text.data());
}

/// Calls `valid(view)` for the well-formed stretches of the text and
/// `invalid(view)` for the bytes between them, in order; no view is empty.
template <class Valid, class Invalid>
void for_each_utf8_run(
    std::string_view text,
    Valid&& valid,
    Invalid&& invalid) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = valid_utf8_end(text, at);
    if (end > at) {
      valid(text.substr(at, end - at));
    }
    std::size_t next = end;
    while (
        next < text.size() &&
        !decode_utf8(text.data() + next, text.data() + text.size()).valid()) {
      ++next;
    }
    if (next > end) {
      invalid(text.substr(end, next - end));
    }
    at = next;
  }
}

/// Writes a code point that is no surrogate as at most four bytes and returns
/// their end.
inline char* put_utf8(char* to, char32_t c) {
  const auto put = [&](std::uint32_t byte) { *to++ = static_cast<char>(byte); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xc0 | c >> 6);
    put(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    put(0xe0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3f));
    put(0x80 | (c & 0x3f));
  } else {
    put(0xf0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3f));
    put(0x80 | (c >> 6 & 0x3f));
    put(0x80 | (c & 0x3f));
  }
  return to;
}

inline void append_utf8(std::string& text, char32_t c) {
  char bytes[4];
  text.append(bytes, put_utf8(bytes, c));
}

/// The text with U+FFFD for every byte that belongs to no character.
inline std::string well_formed_utf8(std::string_view text) {
  std::string result;
  for_each_utf8_run(
      text,
      [&](std::string_view good) { result += good; },
      [&](std::string_view bad) {
        for (std::size_t i = 0; i < bad.size(); ++i) {
          append_utf8(result, U'\ufffd');
        }
      });
  return result;
}

/// The start of a last character that lacks its final bytes; the text's end if
/// the last character is complete.
inline std::size_t unfinished_utf8(std::string_view text) {
  for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xc0) == 0x80) {
      continue;
    }
    const std::size_t length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
    return byte >= 0xc0 && back < length ? text.size() - back : text.size();
  }
  return text.size();
}

} // namespace cairn::base
