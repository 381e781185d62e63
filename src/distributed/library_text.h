#pragma once

#include <exception>
#include <string>

namespace cairn::distributed {

/// What the communication library had to say, without its stack trace.
std::string library_text(const std::exception& error);
std::string first_line(std::string text);

} // namespace cairn::distributed
