#include "launch/internal/free_port.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace cairn::launch {
namespace {

// Linux gives ports from 32768 on to connections, whoever makes them.
constexpr int first_port = 20000;
constexpr int end_of_ports = 32768;

/// Ports that lie between those of two launchers with neighbouring pids, for
/// their restarts.
constexpr int ports_of_a_launcher = 8;

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

} // namespace

int free_port(int restarts) {
  constexpr int count = end_of_ports - first_port;
  const int begin = ::getpid() % count * ports_of_a_launcher + restarts;
  for (int i = 0; i < count; ++i) {
    const int port = first_port + (begin + i) % count;
    if (is_free(port)) {
      return port;
    }
  }
  throw CommError(
      {.what = "no free TCP port was found",
       .values = std::strerror(errno),
       .remedy = "choose one with --master_port"});
}

} // namespace cairn::launch
