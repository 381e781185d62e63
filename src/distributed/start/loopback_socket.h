#pragma once

#include <cairn/base/file.h>

#include <cstdint>

namespace cairn::distributed {

/// A socket that listens on 127.0.0.1; port 0 means any free one. Throws
/// std::system_error when the port is taken.
UniqueFd listen_on_loopback(std::uint16_t port);

} // namespace cairn::distributed
