#pragma once

#include <string>

namespace cairn::corpus {

/// True when an answer from `from` may redirect to `to`.
bool may_redirect(const std::string& from, const std::string& to);

/// Throws ConfigError for an address that http_get() cannot use.
void check_address(const std::string& address);

/// The address without user name and password, for messages.
std::string shown_address(const std::string& address);

} // namespace cairn::corpus
