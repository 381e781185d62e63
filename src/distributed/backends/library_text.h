#pragma once

#include <exception>
#include <string>

namespace cairn::distributed {

/// The message of a communication library's error, without its stack trace.
std::string library_text(const std::exception& error);
/// The first line of a message, without the source path that it starts with.
std::string first_line(std::string text);

} // namespace cairn::distributed
