#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::config {

/// True when the text is a number as JSON spells one: `-0.5e3`, not `+1`, `.5`.
bool is_json_number(std::string_view text);

/// The whole text as a number; nothing when it is none or out of range. Text
/// such as 5e8 or 8.0 is an integer too: sizes are often written so.
std::optional<std::int64_t> parse_integer(std::string_view text);
/// The whole text as a finite number.
std::optional<double> parse_real(std::string_view text);

/// The integer with that value, if there is one.
std::optional<std::int64_t> integral(double value);

/// The shortest text that reads back as the same number.
std::string number_text(double value);

} // namespace cairn::config
