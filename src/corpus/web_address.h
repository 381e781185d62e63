#pragma once

#include <string>

namespace cairn::corpus {

/// Whether an answer from one address may send us on to the other.
bool may_redirect(const std::string& from, const std::string& to);

/// An address that http_get() can use; a ConfigError for any other.
void check_address(const std::string& address);

/// The address without a user's name and password, for messages.
std::string shown_address(const std::string& address);

} // namespace cairn::corpus
