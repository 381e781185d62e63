#pragma once

#include "text/schemes/bpe/char_classes.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace cairn::text {

/// Cuts a text where GPT-2's pattern does:
///
///   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
///
/// Every byte is in exactly one piece. A byte outside well-formed UTF-8 counts
/// as [^\s\p{L}\p{N}], so it joins the punctuation around it.
class Gpt2Splitter {
 public:
  /// The end of the piece that starts at `at`, which must be before `end`.
  const char* next(const char* at, const char* end) const {
    const char* start = at;
    if (*at == ' ' && end - at > 1) {
      ++at;
    }
    // The common case first: ASCII letters, with or without a space in front.
    if (const char* stop = ascii_letters(at, end); stop != at) {
      return is_ascii_or_end(stop, end) ? stop
                                        : run(stop, end, CharClass::letter);
    }
    if (*at == '\'' && at == start) {
      if (const int length = contraction(at, end); length != 0) {
        return at + length;
      }
    }
    const Utf8Char first = decode_utf8(at, end);
    const CharClass kind = classes_.of(first);
    if (kind != CharClass::space) {
      return run(at + first.length, end, kind);
    }
    return spaces(start, end);
  }

 private:
  /// The end of the run of ASCII letters at `at`, found eight bytes at a time.
  static const char* ascii_letters(const char* at, const char* end) {
    static_assert(std::endian::native == std::endian::little);
    constexpr std::uint64_t ones = 0x0101010101010101;
    constexpr std::uint64_t tops = ones * 0x80;
    while (end - at >= 8) {
      std::uint64_t bytes = 0;
      std::memcpy(&bytes, at, 8);
      // Bytes in lower case and without their top bits, so that an addition
      // carries into no neighbouring byte.
      const std::uint64_t lower = (bytes | ones * 0x20) & ~tops;
      const std::uint64_t from_a = lower + ones * (0x80 - 'a');
      const std::uint64_t after_z = lower + ones * (0x80 - 'z' - 1);
      const std::uint64_t stops = ~(from_a & ~after_z & ~bytes) & tops;
      if (stops != 0) {
        return at + std::countr_zero(stops) / 8;
      }
      at += 8;
    }
    while (at != end && is_ascii_letter(*at)) {
      ++at;
    }
    return at;
  }

  static bool is_ascii_letter(char c) {
    const char lower = static_cast<char>(c | 0x20);
    return lower >= 'a' && lower <= 'z';
  }

  static bool is_ascii_or_end(const char* at, const char* end) {
    return at == end || static_cast<unsigned char>(*at) < 0x80;
  }

  static int contraction(const char* at, const char* end) {
    if (end - at < 2) {
      return 0;
    }
    switch (at[1]) {
      case 's':
      case 't':
      case 'm':
      case 'd':
        return 2;
      case 'r':
      case 'v':
        return end - at > 2 && at[2] == 'e' ? 3 : 0;
      case 'l':
        return end - at > 2 && at[2] == 'l' ? 3 : 0;
      default:
        return 0;
    }
  }

  /// The end of the run of characters of class `kind`.
  const char* run(const char* at, const char* end, CharClass kind) const {
    while (at != end) {
      const Utf8Char c = decode_utf8(at, end);
      if (classes_.of(c) != kind) {
        break;
      }
      at += c.length;
    }
    return at;
  }

  /// The end of a run of white space, \s+(?!\S)|\s+ : the whole run if it ends
  /// the text or is one character long, else all but its last character, which
  /// may begin the next piece.
  const char* spaces(const char* start, const char* end) const {
    const char* at = start;
    const char* last = start;
    while (at != end) {
      const Utf8Char c = decode_utf8(at, end);
      if (classes_.of(c) != CharClass::space) {
        return last == start ? at : last;
      }
      last = at;
      at += c.length;
    }
    return end;
  }

  CharClasses classes_;
};

} // namespace cairn::text
