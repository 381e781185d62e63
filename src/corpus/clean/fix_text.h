#pragma once

#include <string>
#include <string_view>

namespace cairn::corpus {

/// Repairs common faults of text on the web, as ftfy's main fixes do: UTF-8
/// read as Latin-1 or Windows-1252 ("Ã©" for "é"), HTML references in text
/// without tags, curly quotes, Latin ligatures, full-width letters, line ends
/// other than "\n", terminal colours, control characters and byte order marks.
/// Accents are normalized (NFC). Text without these faults is returned
/// unchanged; ill-formed UTF-8 becomes replacement characters.
std::string fix_text(std::string_view text);

} // namespace cairn::corpus
