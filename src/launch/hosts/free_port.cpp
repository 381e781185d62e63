#include "launch/internal/free_port.h"

#include <cairn/base/error.h>

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <utility>

namespace cairn::launch {
namespace {

constexpr int first_port = 20000;

/// The end of the ports to choose from. Kubernetes gives those from 30000 on to
/// services, and Linux gives those of a range of its own, usually from 32768
/// on, to connections, whoever makes them.
int end_of_ports() {
  constexpr int usual = 30000;
  constexpr int fewest = 1000;
  int first_of_connections = 0;
  std::ifstream range("/proc/sys/net/ipv4/ip_local_port_range");
  return range >> first_of_connections &&
          first_of_connections >= first_port + fewest
      ? std::min(first_of_connections, usual)
      : usual;
}

bool is_free(int port) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  return fd &&
      ::bind(
          fd.get(),
          reinterpret_cast<const sockaddr*>(&address),
          sizeof address) == 0;
}

/// The claim on a port: an abstract socket, whose names belong to the network
/// namespace as ports do. Null when another has it; an empty descriptor where
/// the system has no such sockets.
std::optional<UniqueFd> claim(int port) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const std::string name = fmt::format("cairn-port-{}", port);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path + 1, name.size()); // after a null byte
  const auto size =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (!fd ||
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) ==
          0) {
    return fd;
  }
  return errno == EADDRINUSE ? std::nullopt : std::optional(UniqueFd());
}

} // namespace

FreePort free_port() {
  const int count = end_of_ports() - first_port;
  std::random_device random;
  const int begin = std::uniform_int_distribution(0, count - 1)(random);
  for (int i = 0; i < count; ++i) {
    const int port = first_port + (begin + i) % count;
    auto claimed = claim(port);
    if (claimed && is_free(port)) {
      return {port, std::move(*claimed)};
    }
  }
  throw CommError(
      {.what = "no free TCP port was found",
       .values = std::strerror(errno),
       .remedy = "choose one with --master_port"});
}

} // namespace cairn::launch
