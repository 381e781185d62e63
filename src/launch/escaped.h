#pragma once

#include <string>
#include <string_view>

namespace cairn::launch {

/// `text` in quotes, for a message, with control bytes and bytes outside ASCII
/// written as escapes and anything very long cut short: what a stranger's file
/// says must not be able to garble a terminal.
std::string escaped(std::string_view text);

} // namespace cairn::launch
