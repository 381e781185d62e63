#pragma once

#include <cairn/corpus/wiki_text.h>

#include <string>
#include <string_view>
#include <vector>

namespace cairn::corpus {

// The steps from markup to text, in the order of their use. Each takes a text
// and gives another in one pass; what turns out to be unwanted is cut off the
// end of the output when its closing mark is met, so that nesting costs
// nothing and an opening without closing leaves its content as text.

/// What later steps must not touch stands in the text as \1 N \2, with N the
/// index in this list.
struct ProtectedText {
  enum class Kind { literal, formula, code };
  Kind kind;
  std::string content;
};
using ProtectedTexts = std::vector<ProtectedText>;

/// Comments and HTML-like elements; fills `texts`. A reference that is not
/// closed goes on to the end of the next one, as in MediaWiki.
std::string without_tags(std::string_view text, ProtectedTexts& texts);

/// Templates {{…}}, parameters {{{…}}} and tables {|…|}; of a table that is not
/// closed, the first line.
std::string without_templates(std::string_view text);

/// [[links]] and [https://… links] become their labels.
std::string without_links(
    std::string_view text,
    const WikiTextOptions& options);

/// __NOTOC__ and its like.
std::string without_switches(std::string_view text);

/// '''bold''' goes, ''italic'' becomes "italic", as WikiExtractor does.
std::string without_quotes(std::string_view text);

/// Headings, lists and lines that are no text; spaces and punctuation tidied.
std::string tidy_lines(std::string_view text, const WikiTextOptions& options);

/// Puts protected texts back: formulas as formula_1, code as codice_1, equal
/// ones with equal numbers.
std::string with_protected(std::string_view text, const ProtectedTexts& texts);

} // namespace cairn::corpus
