#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cairn::corpus {

/// Facts about a wiki from the head of its dump.
struct WikiSite {
  std::string base; ///< address of the main page
  std::vector<std::string> namespaces;

  /// Parses `head`, the dump up to the first page.
  static WikiSite from(std::string_view head);
};

struct WikiPage {
  std::string title;
  std::string id;
  std::string revision;
  int ns = 0;
  bool redirect = false;
  bool wikitext = true;  ///< not a script, style sheet or data
  std::string_view text; ///< as in the XML, references not yet decoded

  /// Parses `xml`, the text between <page> and </page>.
  static WikiPage from(std::string_view xml);
};

} // namespace cairn::corpus
