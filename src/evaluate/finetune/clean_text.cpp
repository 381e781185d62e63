#include "evaluate/finetune/clean_text.h"

#include "base/internal/utf8.h"

#include <cstddef>

namespace cairn::evaluate {
namespace {

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 ||
      c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
      c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

void replace_all(
    std::string& text,
    std::string_view from,
    std::string_view to) {
  std::string result;
  std::size_t at = 0;
  for (std::size_t found = text.find(from); found != std::string::npos;
       found = text.find(from, at)) {
    result.append(text, at, found - at).append(to);
    at = found + from.size();
  }
  if (at > 0) {
    text = result.append(text, at);
  }
}

} // namespace

std::string clean_text(std::string_view text) {
  std::string result;
  const char* const end = text.data() + text.size();
  bool space = false;
  for (const char* at = text.data(); at != end;) {
    const Utf8Char c = decode_utf8(at, end);
    if (is_space(c.code_point)) {
      space = !result.empty();
    } else {
      if (space) {
        result += ' ';
        space = false;
      }
      result.append(at, c.length);
    }
    at += c.length;
  }
  // A replaced stop takes the space that the next one would begin with.
  for (int round = 0; round < 3; ++round) {
    replace_all(result, " . ", ". ");
  }
  return result;
}

} // namespace cairn::evaluate
