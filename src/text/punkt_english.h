#pragma once

#include <string_view>

namespace cairn::text {

/// share/punkt/english.json, put here when the program is built.
extern const std::string_view punkt_english;

} // namespace cairn::text
