#pragma once

#include <string>

namespace cairn::monitor {

/// As Python's str() writes it: the shortest text that reads back as the same
/// number, with `.0` where that is a whole one.
std::string python_number(double value);

/// The same of round(value, decimals).
std::string rounded_python_number(double value, int decimals);

} // namespace cairn::monitor
