#include "config/utf8.h"

#include <fmt/format.h>

namespace cairn::config {
namespace {

bool continues(std::string_view text, std::size_t at) {
  return at < text.size() &&
      (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;
}

} // namespace

std::size_t utf8_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return static_cast<unsigned char>(text[i]);
  };
  const unsigned char first = byte(at);
  if (first < 0x80) {
    return 1;
  }
  if (first < 0xc2 || first > 0xf4 || !continues(text, at + 1)) {
    return 0;
  }
  if (first < 0xe0) {
    return 2;
  }
  // The second byte rules out overlong forms, surrogates and too large values.
  const unsigned char second = byte(at + 1);
  if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
      (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f) ||
      !continues(text, at + 2)) {
    return 0;
  }
  if (first < 0xf0) {
    return 3;
  }
  return continues(text, at + 3) ? 4 : 0;
}

void append_utf8(std::string& text, std::uint32_t code) {
  const auto put = [&](std::uint32_t byte) {
    text.push_back(static_cast<char>(byte));
  };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | (code >> 6));
    put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | (code >> 12));
    put(0x80 | ((code >> 6) & 0x3f));
    put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | (code >> 18));
    put(0x80 | ((code >> 12) & 0x3f));
    put(0x80 | ((code >> 6) & 0x3f));
    put(0x80 | (code & 0x3f));
  }
}

std::string printable(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      result.push_back(c);
    }
  }
  return result;
}

} // namespace cairn::config
