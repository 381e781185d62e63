#include "corpus/pages/page_text.h"

#include "base/internal/ascii_case.h"
#include "base/internal/trimmed.h"
#include "corpus/pages/main_text.h"
#include "corpus/pages/page_blocks.h"
#include "corpus/pages/page_charset.h"

#include <algorithm>
#include <array>
#include <utility>

namespace cairn::corpus {
namespace {

std::string media_type(std::string_view content_type) {
  return lower_case(
      trimmed(content_type.substr(0, content_type.find_first_of(";,"))));
}

/// Whether the bytes are those of a picture, an archive or the like: their
/// control characters are no text, except in UTF-16, which has a mark.
bool is_binary(std::string_view bytes) {
  constexpr std::size_t beginning = 4096;
  const bool marked =
      bytes.starts_with("\xfe\xff") || bytes.starts_with("\xff\xfe");
  return !marked &&
      bytes.substr(0, beginning).find('\0') != std::string_view::npos;
}

bool begins_like_html(std::string_view text) {
  static constexpr std::array<std::string_view, 6>
      beginnings{"<!doctype html", "<html", "<head", "<body", "<!--", "<title"};
  const std::string begin = lower_case(trimmed(text).substr(0, 14));
  return std::ranges::any_of(beginnings, [&](auto each) {
    return begin.starts_with(each);
  });
}

/// Plain text without blanks at the ends of lines and with at most one empty
/// line in a row.
std::string tidied(std::string_view text) {
  std::string out;
  std::size_t empty = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line = line.substr(0, line.find_last_not_of(" \t") + 1);
    if (line.empty()) {
      ++empty;
      continue;
    }
    if (!out.empty()) {
      out += empty > 0 ? "\n\n" : "\n";
    }
    empty = 0;
    out += line;
  }
  return out;
}

} // namespace

bool is_readable_type(std::string_view content_type) {
  const std::string type = media_type(content_type);
  return type.empty() || type == "text/html" || type == "text/plain" ||
      type == "application/xhtml+xml";
}

PageText page_text(std::string_view bytes, std::string_view content_type) {
  if (is_binary(bytes)) {
    throw NoText("it has the bytes of a picture or the like");
  }
  const std::string type = media_type(content_type);
  const std::string text = decode_page(bytes, content_type);
  if (type == "text/plain") {
    return {.title = {}, .text = tidied(text)};
  }
  if (type.empty() && !begins_like_html(text)) {
    throw NoText("the server does not say what it is");
  }
  PageBlocks page = page_blocks(text);
  return {
      .title = std::string(trimmed(page.title)),
      .text = main_text(page.blocks)};
}

} // namespace cairn::corpus
