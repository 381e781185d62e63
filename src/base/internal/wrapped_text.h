#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cairn::inline base {

/// Wraps text that begins at column `indent` between words, so that no line
/// grows beyond `width`. Later lines are indented to `indent` too. Existing
/// line breaks stay.
std::string wrapped_text(
    std::string_view text,
    std::size_t indent,
    std::size_t width = 78);

} // namespace cairn::base
