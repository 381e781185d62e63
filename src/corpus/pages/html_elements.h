#pragma once

#include "corpus/pages/html_tokens.h"

#include <cstdint>
#include <string_view>

namespace cairn::corpus {

/// What the extraction of text must know about an element, as bits.
enum HtmlTrait : std::uint32_t {
  html_block = 1 << 0,   ///< its text stands apart from the text around it
  html_void = 1 << 1,    ///< has no end tag
  html_dropped = 1 << 2, ///< no text for a reader of the page's subject
  html_limit = 1 << 3,   ///< an end tag within does not close elements outside
  html_heading = 1 << 4,
  html_item = 1 << 5, ///< of a list
  html_preformatted = 1 << 6,
  html_body = 1 << 7, ///< holds the page's subject: <article>, <main>
  html_paragraph = 1 << 8,
  html_cell = 1 << 9, ///< of a table
  html_row = 1 << 10,
  html_term = 1 << 11, ///< of a list of definitions
  html_option = 1 << 12,
  html_closes_paragraph = 1 << 13, ///< its start tag ends an open <p>
};

struct HtmlElement {
  std::string_view name;
  std::uint32_t traits = 0;
  HtmlContent content = HtmlContent::markup;

  bool is(std::uint32_t any_of) const { return (traits & any_of) != 0; }
};

/// The element of that name, in lower case; one without traits when it is not
/// known.
HtmlElement html_element(std::string_view name);

} // namespace cairn::corpus
