#pragma once

#include <sys/socket.h>

#include <string>

namespace cairn::corpus {

/// Whether an address of the internet, v4 or v6, is one that everybody can
/// reach: not one of this machine, a local network, a cloud's services for its
/// machines, or a group of receivers.
bool is_public(const sockaddr& address);

/// "192.168.0.1"
std::string shown_network(const sockaddr& address);

/// Whether the environment names a proxy for HTTP.
bool has_proxy();

} // namespace cairn::corpus
