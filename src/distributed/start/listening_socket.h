#pragma once

#include <cairn/base/file.h>

#include <cstdint>
#include <optional>
#include <string>

namespace cairn::distributed {

/// A socket that listens on 127.0.0.1; port 0 means any free one. Throws
/// std::system_error when the port is taken.
UniqueFd listen_on_loopback(std::uint16_t port);

/// A socket that listens on every interface, for IPv6 and IPv4 if there are
/// both. Throws std::system_error when the port is taken.
UniqueFd listen_everywhere(std::uint16_t port);

/// The port on which the socket listens.
std::uint16_t port_of(int listener);

/// A socket that listens on the address of this machine that `host` means, and
/// on no other. None when that could keep ranks out: `host` means several
/// addresses, none of this machine, or one of the loopback while ranks may be
/// on other machines, too. Throws std::system_error when the port is taken.
std::optional<UniqueFd> listen_on(
    const std::string& host,
    std::uint16_t port,
    bool one_machine);

} // namespace cairn::distributed
