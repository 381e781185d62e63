#pragma once

#include <set>
#include <string>
#include <string_view>

namespace cairn::corpus {

struct WikiTextOptions {
  bool lists = false;     ///< keep the items of lists, as "- item" lines
  bool html_safe = false; ///< write & < > as &amp; &lt; &gt;
  /// Names in front of a colon, in lower case, whose links are not text: files,
  /// categories and whatever else a wiki has besides its articles.
  std::set<std::string, std::less<>> namespaces{};
};

/// The readable text of an article: without templates, tables, references,
/// comments, galleries, categories and files; of links the label; of formatting
/// the words; section titles as sentences of their own, where the section says
/// something. Takes any bytes, in time proportional to their number.
std::string wiki_text(std::string_view markup, const WikiTextOptions& options);

} // namespace cairn::corpus
