#include "text/internal/python_text.h"

#include "base/internal/utf8.h"

#include <unicode/bytestream.h>
#include <unicode/casemap.h>
#include <unicode/stringpiece.h>
#include <unicode/ucasemap.h>
#include <unicode/uchar.h>

#include <algorithm>

namespace cairn::text::python {

std::size_t stripped_size(std::string_view text) {
  std::size_t end = text.size();
  while (end > 0) {
    if (is_ascii(text[end - 1])) {
      if (!is_ascii_space(text[end - 1])) {
        return end;
      }
      --end;
    } else if (end >= 2 && space_at(text.substr(0, end), end - 2) == 2) {
      end -= 2;
    } else if (end >= 3 && space_at(text.substr(0, end), end - 3) == 3) {
      end -= 3;
    } else {
      return end;
    }
  }
  return 0;
}

Character first_character(std::string_view text) {
  const Utf8Char c = decode_utf8(text.data(), text.data() + text.size());
  return {c.valid() ? c.code_point : U'\ufffd', c.length};
}

bool is_upper(char32_t code) {
  return u_isUUppercase(static_cast<UChar32>(code)) != 0;
}

bool is_lower(char32_t code) {
  return u_isULowercase(static_cast<UChar32>(code)) != 0;
}

bool is_decimal(char32_t code) {
  return u_charType(static_cast<UChar32>(code)) == U_DECIMAL_DIGIT_NUMBER;
}

bool is_word_but_digit(char32_t code) {
  const auto c = static_cast<UChar32>(code);
  return code == '_' || (U_GET_GC_MASK(c) & U_GC_L_MASK) != 0 ||
      (!is_decimal(code) &&
       u_getIntPropertyValue(c, UCHAR_NUMERIC_TYPE) != U_NT_NONE);
}

void lower(std::string_view text, std::string& out) {
  out.clear();
  if (std::all_of(text.begin(), text.end(), is_ascii)) {
    for (const char c : text) {
      out += c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
    }
    return;
  }
  icu::StringByteSink<std::string> sink(&out);
  UErrorCode status = U_ZERO_ERROR;
  icu::CaseMap::utf8ToLower(
      "",
      0,
      icu::StringPiece(text.data(), static_cast<std::int32_t>(text.size())),
      sink,
      nullptr,
      status);
}

std::string capitalize(std::string_view text) {
  std::string out;
  icu::StringByteSink<std::string> sink(&out);
  UErrorCode status = U_ZERO_ERROR;
  icu::CaseMap::utf8ToTitle(
      "",
      U_TITLECASE_WHOLE_STRING | U_TITLECASE_NO_BREAK_ADJUSTMENT,
      nullptr,
      icu::StringPiece(text.data(), static_cast<std::int32_t>(text.size())),
      sink,
      nullptr,
      status);
  return out;
}

} // namespace cairn::text::python
