#pragma once

#include <string>
#include <string_view>

namespace cairn::evaluate {

/// Ways in which data sets whose words stand apart are turned into running
/// text. They are those of Megatron's tasks, character by character, so that
/// perplexities compare.
enum class Detokenizer { none, wikitext, ptb };

/// The running text of a data set in UTF-8.
std::string detokenized(std::string text, Detokenizer how);

/// "wikitext", …
std::string_view name_of(Detokenizer how);

} // namespace cairn::evaluate
