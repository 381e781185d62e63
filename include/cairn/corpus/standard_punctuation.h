#pragma once

#include <string>
#include <string_view>

namespace cairn::corpus {

/// One way to write each sign, so that sentence splitters and vocabularies meet
/// no other: quotation marks of every kind, also `` and '', become " or ';
/// dashes become "-", long ones " - "; an ellipsis "..."; blanks of every kind
/// " ". Blanks in front of ,.;:!?) and behind ( go. Everything else stays, also
/// the signs of Chinese and Japanese. Doing it again changes nothing more, and
/// time is proportional to the length.
std::string standard_punctuation(std::string_view text);

} // namespace cairn::corpus
