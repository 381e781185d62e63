#include "distributed/start/listening_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

namespace cairn::distributed {
namespace {

void require(int result, const char* call) {
  if (result < 0) {
    throw std::system_error(errno, std::generic_category(), call);
  }
}

/// A socket that listens on the address; none if this machine does not have it,
/// or cannot listen there for another reason than that the port is taken or not
/// allowed.
std::optional<UniqueFd> listen_at(const sockaddr* address, socklen_t size) {
  UniqueFd listener(
      ::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!listener) {
    return std::nullopt;
  }
  const int on = 1;
  const int off = 0;
  ::setsockopt(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  require(
      ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)),
      "setsockopt");
  if (::bind(listener.get(), address, size) != 0) {
    if (errno == EADDRINUSE || errno == EACCES) {
      require(-1, "bind");
    }
    return std::nullopt;
  }
  require(::listen(listener.get(), SOMAXCONN), "listen");
  return listener;
}

bool is_loopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const auto& ip = reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
    return ntohl(ip.s_addr) >> 24 == 127;
  }
  const auto& ip = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&ip) != 0;
}

bool is_same(const addrinfo& one, const addrinfo& other) {
  return one.ai_addrlen == other.ai_addrlen &&
      std::memcmp(one.ai_addr, other.ai_addr, one.ai_addrlen) == 0;
}

} // namespace

UniqueFd listen_on_loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto listener =
      listen_at(reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  if (!listener) {
    errno = EADDRNOTAVAIL;
    require(-1, "bind");
  }
  return std::move(*listener);
}

UniqueFd listen_everywhere(std::uint16_t port) {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(port);
  address.sin6_addr = in6addr_any;
  if (auto listener = listen_at(
          reinterpret_cast<const sockaddr*>(&address),
          sizeof(address))) {
    return std::move(*listener);
  }
  sockaddr_in older{};
  older.sin_family = AF_INET;
  older.sin_port = htons(port);
  older.sin_addr.s_addr = htonl(INADDR_ANY);
  auto listener =
      listen_at(reinterpret_cast<const sockaddr*>(&older), sizeof(older));
  if (!listener) {
    errno = EADDRNOTAVAIL;
    require(-1, "bind");
  }
  return std::move(*listener);
}

std::uint16_t port_of(int listener) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  require(
      ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size),
      "getsockname");
  return ntohs(
      address.ss_family == AF_INET6
          ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
          : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

std::optional<UniqueFd> listen_on(
    const std::string& host,
    std::uint16_t port,
    bool one_machine) {
  if (one_machine && host == "localhost") {
    return listen_on_loopback(port); // not on its IPv6 address alone
  }
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* all = nullptr;
  if (::getaddrinfo(
          host.c_str(),
          std::to_string(port).c_str(),
          &wanted,
          &all) != 0) {
    return std::nullopt;
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(
      all,
      &::freeaddrinfo);
  for (const addrinfo* each = all; each != nullptr; each = each->ai_next) {
    // Another rank may take another one of them.
    if (!is_same(*each, *all)) {
      return std::nullopt;
    }
  }
  if (is_loopback(all->ai_addr) && !one_machine) {
    return std::nullopt;
  }
  return listen_at(all->ai_addr, all->ai_addrlen);
}

} // namespace cairn::distributed
