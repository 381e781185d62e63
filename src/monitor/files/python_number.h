#pragma once

#include <string>

namespace cairn::monitor {

/// The number as Python's str() writes it: the shortest text that reads back as
/// the same number, with `.0` for a whole number.
std::string python_number(double value);

/// round(value, decimals) as Python's str() writes it.
std::string rounded_python_number(double value, int decimals);

} // namespace cairn::monitor
