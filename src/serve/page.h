#pragma once

#include <string_view>

namespace cairn::serve {

/// The page at "/": HTML with its style and script.
std::string_view page_html();

} // namespace cairn::serve
