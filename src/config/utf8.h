#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cairn::config {

/// Length of the well-formed UTF-8 sequence at `text[at]` (RFC 3629: no
/// overlong forms, no surrogates, at most U+10FFFF), or 0.
std::size_t utf8_length(std::string_view text, std::size_t at);

/// Appends a code point that is no surrogate.
void append_utf8(std::string& text, std::uint32_t code);

} // namespace cairn::config
