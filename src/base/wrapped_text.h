#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cairn {

/// Text that begins at column `indent`, broken between words so that no line
/// grows beyond `width`; later lines begin at `indent` too. Its own line breaks
/// stay.
std::string wrapped_text(
    std::string_view text,
    std::size_t indent,
    std::size_t width = 78);

} // namespace cairn
