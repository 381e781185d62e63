#include "launch/internal/free_port.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <random>

namespace cairn::launch {
namespace {

/// The lowest of the ports that the system gives to connections.
int first_port_of_connections() {
  int first = 32768;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> first;
  return first;
}

/// The port, or any that the system chooses for 0, if nothing has it; else 0.
int port_if_free(int port) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (!fd || ::bind(fd.get(), generic, size) != 0 ||
      ::getsockname(fd.get(), generic, &size) != 0) {
    return 0;
  }
  return ntohs(address.sin_port);
}

} // namespace

int free_port() {
  constexpr int least = 10000; // services have the ports below
  const int most = std::min(first_port_of_connections(), 65536) - 1;
  if (least < most) {
    std::random_device random;
    std::uniform_int_distribution<int> ports(least, most);
    constexpr int tries = 100;
    for (int i = 0; i < tries; ++i) {
      if (const int port = port_if_free(ports(random))) {
        return port;
      }
    }
  }
  if (const int port = port_if_free(0)) {
    return port;
  }
  throw CommError(
      {.what = "no free TCP port was found",
       .values = std::strerror(errno),
       .remedy = "choose one with --master_port"});
}

} // namespace cairn::launch
