#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace cairn::distributed {

/// The sockets of this process that are connected to `port` of any machine, in
/// order. c10d tells nobody which of them is a store's.
std::vector<int> sockets_to(std::uint16_t port);

/// Lets a read from the socket fail that waits longer. Zero: it never fails.
void limit_reads(int socket, std::chrono::milliseconds limit);

/// Ends the connection, also for a thread that waits for it.
void hang_up(int socket);

} // namespace cairn::distributed
