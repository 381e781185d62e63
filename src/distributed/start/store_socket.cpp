#include "distributed/start/store_socket.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

namespace cairn::distributed {
namespace {

std::optional<std::uint16_t> port_at_other_end(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return std::nullopt;
  }
  if (address.ss_family == AF_INET) {
    return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  }
  if (address.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  }
  return std::nullopt;
}

} // namespace

std::vector<int> sockets_to(std::uint16_t port) {
  std::vector<int> found;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end;
       !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    int fd = -1;
    std::from_chars(name.data(), name.data() + name.size(), fd);
    if (fd >= 0 && port_at_other_end(fd) == port) {
      found.push_back(fd);
    }
  }
  std::ranges::sort(found);
  return found;
}

void limit_reads(int socket, std::chrono::milliseconds limit) {
  const timeval time{
      .tv_sec = limit.count() / 1000,
      .tv_usec = limit.count() % 1000 * 1000};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
}

void hang_up(int socket) {
  ::shutdown(socket, SHUT_RDWR);
}

} // namespace cairn::distributed
