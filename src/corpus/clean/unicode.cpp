#include "corpus/clean/unicode.h"

#include "base/internal/utf8.h"

#include <unicode/utf8.h>

namespace cairn::corpus {

char32_t next_code_point(std::string_view text, std::size_t& at) {
  UChar32 code = 0;
  U8_NEXT_OR_FFFD(text.data(), at, text.size(), code);
  return static_cast<char32_t>(code);
}

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t begin = at;
    const unsigned char byte = static_cast<unsigned char>(text[at]);
    if (byte < 0x80) {
      ++at;
      if ((byte >= 0x20 && byte != 0x7f) || byte == '\n' || byte == '\t') {
        out += text[begin];
      }
      continue;
    }
    const char32_t code = next_code_point(text, at);
    if (code == replacement_character) {
      append_utf8(out, code);
    } else if (code >= 0xa0) {
      out.append(text, begin, at - begin);
    }
  }
  return out;
}

} // namespace cairn::corpus
