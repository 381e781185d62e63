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

/// The text with control characters written as \\xNN, so that a name from
/// someone's file cannot break or fake a line of a message.
std::string printable(std::string_view text);

} // namespace cairn::config
