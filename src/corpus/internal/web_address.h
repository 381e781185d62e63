#pragma once

#include <string>

namespace cairn::corpus {

/// True when an answer from `from` may redirect to `to`.
bool may_redirect(const std::string& from, const std::string& to);

/// Throws ConfigError for an address that http_get() cannot use.
void check_address(const std::string& address);

/// The address without user name and password, for messages.
std::string shown_address(const std::string& address);

/// The host of an address in lower case, with its port unless that is the usual
/// one: "example.com", "example.com:8080". Empty for what is no web address.
std::string server_of(const std::string& address);

/// The path and what follows it, without "#…": "/a?b=c".
std::string path_of(const std::string& address);

/// The address of another path on the same server.
std::string address_beside(const std::string& address, const std::string& path);

} // namespace cairn::corpus
