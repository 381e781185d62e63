#pragma once

#include <string>
#include <string_view>

namespace cairn::config {

/// The text with control characters written as \\xNN, so that a name from
/// someone's file cannot break or fake a line of a message.
std::string printable(std::string_view text);

} // namespace cairn::config
