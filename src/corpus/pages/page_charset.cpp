#include "corpus/pages/page_charset.h"

#include <cairn/base/error.h>

#include "base/internal/ascii_case.h"
#include "base/internal/utf8.h"
#include "corpus/clean/unicode.h"
#include "corpus/pages/charset_labels.h"
#include "corpus/pages/html_tokens.h"

#include <unicode/ucnv.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <cstdint>
#include <memory>

namespace cairn::corpus {
namespace {

constexpr std::string_view utf8 = "utf-8";
constexpr std::string_view windows = "windows-1252";

struct CloseConverter {
  void operator()(UConverter* converter) const { ::ucnv_close(converter); }
};

/// The encoding that a byte order mark says; takes the mark from the bytes.
std::string_view take_mark(std::string_view& bytes) {
  struct Mark {
    std::string_view bytes;
    std::string_view converter;
  };
  static constexpr Mark marks[]{
      {"\xef\xbb\xbf", utf8},
      {"\xfe\xff", "utf-16be"},
      {"\xff\xfe", "utf-16le"}};
  for (const Mark& mark : marks) {
    if (bytes.starts_with(mark.bytes)) {
      bytes.remove_prefix(mark.bytes.size());
      return mark.converter;
    }
  }
  return {};
}

/// The label behind "charset=" in "text/html; charset=utf-8".
std::string_view charset_in(std::string_view content) {
  const std::string plain = lower_case(content);
  const std::size_t at = plain.find("charset=");
  if (at == std::string::npos) {
    return {};
  }
  content.remove_prefix(at + 8);
  if (content.starts_with('"') || content.starts_with('\'')) {
    const char quote = content[0];
    content.remove_prefix(1);
    return content.substr(0, content.find(quote));
  }
  return content.substr(0, content.find_first_of("; \t,"));
}

/// The encoding of <meta charset> or <meta http-equiv> at the beginning.
std::string_view converter_in_page(std::string_view bytes) {
  constexpr std::size_t beginning = 4096;
  HtmlTokens tokens(bytes.substr(0, beginning));
  HtmlToken token;
  while (tokens.next(token)) {
    if (token.kind != HtmlToken::Kind::start || token.text != "meta") {
      continue;
    }
    std::string_view converter;
    if (const auto* const charset = token.attribute("charset")) {
      converter = converter_for(*charset);
    } else if (const auto* const content = token.attribute("content");
               content != nullptr && token.attribute("http-equiv") != nullptr) {
      converter = converter_for(charset_in(*content));
    }
    if (!converter.empty()) {
      // The tag could be read, so the page is in no encoding of 16 bits.
      return converter.starts_with("utf-16") ? utf8 : converter;
    }
  }
  return {};
}

/// Whether the bytes are UTF-8, but for a broken place here and there.
bool is_utf8(std::string_view bytes) {
  constexpr std::size_t least_share = 20;
  std::size_t characters = 0; // other than those of ASCII
  std::size_t broken = 0;
  const char* const end = bytes.data() + bytes.size();
  for (const char* at = bytes.data(); at != end;) {
    const Utf8Char c = decode_utf8(at, end);
    at += c.length;
    characters += c.valid() && c.length > 1 ? 1 : 0;
    broken += c.valid() ? 0 : 1;
  }
  return broken * least_share <= characters;
}

std::string converted(std::string_view bytes, std::string_view converter) {
  UErrorCode error = U_ZERO_ERROR;
  const std::unique_ptr<UConverter, CloseConverter> from(
      ::ucnv_open(std::string(converter).c_str(), &error));
  if (U_FAILURE(error)) {
    throw InternalError(
        {.what = "ICU does not know the encoding " + std::string(converter)});
  }
  const icu::UnicodeString text(
      bytes.data(),
      static_cast<std::int32_t>(bytes.size()),
      from.get(),
      error);
  if (U_FAILURE(error)) { // U+FFFD takes the place of what is broken
    throw InternalError(
        {.what = std::string("ICU does not convert: ") + ::u_errorName(error)});
  }
  std::string result;
  text.toUTF8String(result);
  return result;
}

/// Leaves "\n" of "\r\n" and "\r".
void unify_line_ends(std::string& text) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') {
      continue;
    }
    text[kept++] = text[i] == '\r' || text[i] == '\f' ? '\n' : text[i];
  }
  text.resize(kept);
}

} // namespace

std::string decode_page(std::string_view bytes, std::string_view declared) {
  std::string_view converter = take_mark(bytes);
  if (converter.empty()) {
    converter = converter_for(charset_in(declared));
    if (converter.empty()) {
      converter = converter_in_page(bytes);
    }
    if ((converter.empty() || converter == windows)) {
      converter = is_utf8(bytes) ? utf8 : windows;
    }
  }
  std::string text =
      converter == utf8 ? std::string(bytes) : converted(bytes, converter);
  unify_line_ends(text);
  return printable(text);
}

} // namespace cairn::corpus
