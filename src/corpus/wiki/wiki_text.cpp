#include "corpus/wiki/wiki_text.h"

#include "corpus/clean/unicode.h"
#include "corpus/wiki/character_reference.h"
#include "corpus/wiki/wiki_markup.h"

namespace cairn::corpus {
namespace {

std::string html_safe(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

} // namespace

std::string wiki_text(std::string_view markup, const WikiTextOptions& options) {
  ProtectedTexts texts;
  // printable() removes \1 and \2, which mark protected texts from here on.
  std::string text = without_tags(printable(markup), texts);
  text = without_templates(text);
  text = without_links(text, options);
  text = without_switches(text);
  text = decode_references(text);
  text = without_quotes(text);
  text = tidy_lines(text, options);
  text = with_protected(text, texts);
  return options.html_safe ? html_safe(text) : text;
}

} // namespace cairn::corpus
