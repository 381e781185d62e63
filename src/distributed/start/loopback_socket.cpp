#include "distributed/start/loopback_socket.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <system_error>

namespace cairn::distributed {
namespace {

void require(int result, const char* call) {
  if (result < 0) {
    throw std::system_error(errno, std::generic_category(), call);
  }
}

} // namespace

UniqueFd listen_on_loopback(std::uint16_t port) {
  UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  require(listener.get(), "socket");
  const int on = 1;
  require(
      ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)),
      "setsockopt");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  require(
      ::bind(
          listener.get(),
          reinterpret_cast<const sockaddr*>(&address),
          sizeof(address)),
      "bind");
  require(::listen(listener.get(), SOMAXCONN), "listen");
  return listener;
}

} // namespace cairn::distributed
