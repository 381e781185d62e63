#pragma once

#include <string_view>

namespace cairn::text {

/// The text of share/punkt/english.json, embedded when the program is built.
extern const std::string_view punkt_english;

} // namespace cairn::text
