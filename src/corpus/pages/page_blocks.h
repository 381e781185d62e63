#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::corpus {

/// A paragraph, heading, list item or other stretch of a page whose text stands
/// together.
struct PageBlock {
  enum class Kind { paragraph, heading, item, preformatted };
  Kind kind = Kind::paragraph;
  int level = 0;    ///< of a heading, 1 to 6
  std::string text; ///< without blanks at its ends and never empty
  /// Bytes of `text` within links, blanks not counted.
  std::size_t link_bytes = 0;
  std::size_t bytes = 0; ///< of `text`, blanks not counted
  bool in_body = false;  ///< within <article> or <main>
  /// Within an element whose class or id says that it is no part of the
  /// subject, such as "sidebar".
  bool beside = false;
};

struct PageBlocks {
  std::string title; ///< of <title>, else the first heading
  std::vector<PageBlock> blocks;
};

/// Cuts a page, which is UTF-8 without control characters other than tab and
/// line feed, into its visible blocks. Navigation, forms, scripts and what is
/// hidden are left out.
PageBlocks page_blocks(std::string_view html);

} // namespace cairn::corpus
