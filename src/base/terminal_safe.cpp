#include "base/internal/terminal_safe.h"

#include "base/internal/utf8.h"

#include <fmt/format.h>

#include <iterator>

namespace cairn::inline base {
namespace {

void append_escaped(std::string& text, char c) {
  fmt::format_to(
      std::back_inserter(text),
      "\\x{:02x}",
      static_cast<unsigned char>(c));
}

/// True for the first byte of U+0080 … U+009F, which some terminals obey as
/// they obey ESC.
bool begins_c1_control(std::string_view text, std::size_t at) {
  return text[at] == '\xc2' && static_cast<unsigned char>(text[at + 1]) < 0xa0;
}

} // namespace

std::string terminal_safe(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for_each_utf8_run(
      text,
      [&](std::string_view valid) {
        for (std::size_t i = 0; i < valid.size(); ++i) {
          const char c = valid[i];
          const bool kept = c == '\n' || c == '\t';
          if ((static_cast<unsigned char>(c) < 0x20 && !kept) || c == 0x7f) {
            append_escaped(result, c);
          } else if (begins_c1_control(valid, i)) {
            append_escaped(result, c);
            append_escaped(result, valid[++i]);
          } else {
            result += c;
          }
        }
      },
      [&](std::string_view invalid) {
        for (const char c : invalid) {
          append_escaped(result, c);
        }
      });
  return result;
}

} // namespace cairn::base
