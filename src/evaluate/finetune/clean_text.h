#pragma once

#include <string>
#include <string_view>

namespace cairn::evaluate {

/// The text without white space at its ends, each stretch of white space a
/// single space, and sentences ended as ". " instead of " . ". White space is
/// what Unicode calls so. The text is well-formed UTF-8.
std::string clean_text(std::string_view text);

} // namespace cairn::evaluate
