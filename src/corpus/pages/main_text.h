#pragma once

#include "corpus/pages/page_blocks.h"

#include <string>
#include <string_view>
#include <vector>

namespace cairn::corpus {

/// The text that a page is about: the blocks that are not navigation, lists of
/// links, notices and the like, with an empty line between them. Rules, by the
/// length of a block and its share of links, and by its neighbours:
///
/// - A block is dropped if more than a third of it are links, or if it is a
///   short notice of copyright.
/// - It is kept if it is preformatted, has 40 words, or has 20 and ends like a
///   sentence.
/// - Else, with 10 words or the end of a sentence, it is as the nearest block
/// of
///   these two kinds: kept if the one before it or the one behind it is kept.
/// - Else it is kept if both of these are.
/// - A heading is kept if a block up to the next heading is, or if the next
///   heading is kept and of a lower rank.
/// - Blocks in elements that are named as a page's margins, such as "sidebar",
///   do not count, unless they hold most of the text. If <article> and <main>
///   hold half of the text, there is no text outside of them.
std::string main_text(const std::vector<PageBlock>& blocks);

/// The number of words. Chinese and Japanese count two characters as a word,
/// languages of South East Asia without blanks five letters.
std::size_t count_words(std::string_view text);

} // namespace cairn::corpus
