#pragma once

#include <string>
#include <string_view>

namespace cairn::inline base {

/// The text with the characters that have a meaning in HTML and SVG escaped,
/// for content and for quoted attributes. Control characters, which markup
/// cannot hold, become U+FFFD.
inline std::string markup_escaped(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      case '\n':
      case '\t':
        result += c;
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          result += "\xef\xbf\xbd";
        } else {
          result += c;
        }
    }
  }
  return result;
}

} // namespace cairn::base
