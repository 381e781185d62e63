#pragma once

#include <string>
#include <string_view>

namespace cairn::corpus {

/// Repairs what often goes wrong with text on the web, the main fixes of ftfy:
/// UTF-8 that was read as Latin-1 or Windows-1252 ("Ã©" for "é"), HTML
/// references in text without tags, curly quotes, Latin ligatures, full-width
/// letters, line ends other than "\n", terminal colours, control characters and
/// byte order marks; and makes accents one way (NFC). Text that needs none of
/// it comes back as it is; ill-formed UTF-8 becomes replacement characters.
std::string fix_text(std::string_view text);

} // namespace cairn::corpus
