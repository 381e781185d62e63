#pragma once

namespace cairn::inline base {

// The kinds of the characters of ASCII, whatever the locale.

constexpr bool is_ascii_digit(char c) {
  return c >= '0' && c <= '9';
}

constexpr bool is_ascii_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

} // namespace cairn::base
