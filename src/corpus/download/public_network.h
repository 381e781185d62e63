#pragma once

#include <sys/socket.h>

#include <string>
#include <string_view>

namespace cairn::corpus {

/// Whether an address of the internet, v4 or v6, is one that everybody can
/// reach: not one of this machine, a local network, a cloud's services for its
/// machines, or a group of receivers.
bool is_public(const sockaddr& address);

/// "192.168.0.1"
std::string shown_network(const sockaddr& address);

/// Whether the environment names a proxy for the scheme of the address, and
/// `no_proxy` is not "*".
bool has_proxy(std::string_view address);

} // namespace cairn::corpus
