#pragma once

#include <string>
#include <string_view>

namespace cairn::inline base {

/// The text with control characters and bytes that are no UTF-8 written as
/// `\x1b`, so that the content of a file that stands in a message cannot steer
/// a terminal. Line breaks and tabs stay.
std::string terminal_safe(std::string_view text);

} // namespace cairn::base
