#pragma once

#include <cairn/base/file.h>

#include <netdb.h>

#include <chrono>
#include <cstdint>
#include <string>

namespace cairn::distributed {

/// Waits until the socket is ready; false when the time is over.
bool wait_until_ready(
    int fd,
    short events,
    std::chrono::steady_clock::time_point end);

/// Connects to one of the addresses of a host by `end`. The socket does not
/// block. Throws c10::DistNetworkError when that is impossible now. The lookup
/// of the name takes as long as it takes.
UniqueFd connect_to(
    const std::string& host,
    std::uint16_t port,
    std::chrono::steady_clock::time_point end);

/// Connects to the first address in the list that answers. Each address gets
/// its share of the time that is left, because one may swallow all packets.
UniqueFd connect_to_one_of(
    const addrinfo* addresses,
    std::chrono::steady_clock::time_point end);

} // namespace cairn::distributed
