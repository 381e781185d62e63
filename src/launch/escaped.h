#pragma once

#include <string>
#include <string_view>

namespace cairn::launch {

/// `text` in quotes, for a message. Control bytes and bytes outside ASCII are
/// escaped and very long text is cut, so that the content of an unknown file
/// cannot garble a terminal.
std::string escaped(std::string_view text);

} // namespace cairn::launch
