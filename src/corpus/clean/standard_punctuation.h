#pragma once

#include <string>
#include <string_view>

namespace cairn::corpus {

/// Writes each sign in one way only, so that sentence splitters and
/// vocabularies meet no variants. Quotation marks of every kind, `` and ''
/// included, become " or '; dashes become "-", long ones " - "; an ellipsis
/// becomes "..."; blanks of every kind become " ". Blanks before ,.;:!?) and
/// after ( are removed. Everything else stays, including the signs of Chinese
/// and Japanese. Applying it twice changes nothing more. Time is proportional
/// to the length.
std::string standard_punctuation(std::string_view text);

} // namespace cairn::corpus
