#pragma once

#include <set>
#include <string>
#include <string_view>

namespace cairn::corpus {

struct WikiTextOptions {
  bool lists = false;     ///< keep the items of lists, as "- item" lines
  bool html_safe = false; ///< write & < > as &amp; &lt; &gt;
  /// Names before a colon, in lower case, whose links are not text: files,
  /// categories and everything else a wiki has besides articles.
  std::set<std::string, std::less<>> namespaces{};
};

/// The readable text of an article. Drops templates, tables, references,
/// comments, galleries, categories and files. Keeps the labels of links and the
/// words inside formatting. Section titles become sentences of their own, if
/// the section has text. Takes any bytes, in time proportional to their number.
std::string wiki_text(std::string_view markup, const WikiTextOptions& options);

} // namespace cairn::corpus
