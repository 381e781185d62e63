#pragma once

#include <string>

namespace cairn::corpus {

/// Repairs text that was UTF-8 and has been read as Windows-1252 or Latin-1:
/// "schÃ¶n" becomes "schön", "itâ€™s" becomes "it’s". Judges each sequence by
/// itself, so a text may be broken in parts only, and leaves alone what people
/// really write: "CAFÉ™", "SÃO".
void repair_mojibake(std::u32string& text);

} // namespace cairn::corpus
