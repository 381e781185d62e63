#pragma once

#include "corpus/wiki/wiki_text.h"

#include <string>
#include <string_view>
#include <vector>

namespace cairn::corpus {

// The steps from markup to text, in the order of their use. Each step turns one
// text into another in a single pass. Unwanted content is cut off the end of
// the output when its closing mark is found, so nesting costs nothing, and the
// content of an unclosed mark stays as text.

/// A text that later steps must not touch. The text holds \1 N \2 in its place,
/// where N is the index in this list.
struct ProtectedText {
  enum class Kind { literal, formula, code };
  Kind kind;
  std::string content;
};
using ProtectedTexts = std::vector<ProtectedText>;

/// Removes comments and HTML-like elements; fills `texts`. An unclosed
/// reference extends to the end of the next one, as in MediaWiki.
std::string without_tags(std::string_view text, ProtectedTexts& texts);

/// Removes templates {{…}}, parameters {{{…}}} and tables {|…|}; of an unclosed
/// table, only the first line.
std::string without_templates(std::string_view text);

/// Replaces [[links]] and [https://… links] by their labels.
std::string without_links(
    std::string_view text,
    const WikiTextOptions& options);

/// Removes __NOTOC__ and the like.
std::string without_switches(std::string_view text);

/// Removes '''bold''' marks and turns ''italic'' into "italic", as
/// WikiExtractor does.
std::string without_quotes(std::string_view text);

/// Handles headings, lists and lines that are no text; tidies spaces and
/// punctuation.
std::string tidy_lines(std::string_view text, const WikiTextOptions& options);

/// Puts protected texts back: formulas as formula_1, code as codice_1; equal
/// texts get equal numbers.
std::string with_protected(std::string_view text, const ProtectedTexts& texts);

} // namespace cairn::corpus
