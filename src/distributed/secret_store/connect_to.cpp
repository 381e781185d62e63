#include "distributed/secret_store/connect_to.h"

#include <c10/util/Exception.h>
#include <fmt/core.h>

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

namespace cairn::distributed {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// Connects to one address; otherwise returns none and sets `error`.
UniqueFd try_address(
    const addrinfo& address,
    Clock::time_point end,
    int& error) {
  UniqueFd fd(::socket(
      address.ai_family,
      SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
      0));
  if (!fd) {
    error = errno;
    return {};
  }
  if (::connect(fd.get(), address.ai_addr, address.ai_addrlen) == 0) {
    return fd;
  }
  error = errno;
  if (error == EINPROGRESS) {
    error = ETIMEDOUT;
    if (wait_until_ready(fd.get(), POLLOUT, end)) {
      socklen_t size = sizeof error;
      ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    }
  }
  return error == 0 ? std::move(fd) : UniqueFd();
}

} // namespace

bool wait_until_ready(int fd, short events, Clock::time_point end) {
  while (true) {
    const auto left = std::clamp(
        std::chrono::ceil<milliseconds>(end - Clock::now()),
        milliseconds(0),
        milliseconds(std::chrono::hours(24)));
    pollfd watched{fd, events, 0};
    const int count = ::poll(&watched, 1, static_cast<int>(left.count()));
    if (count > 0) {
      return true;
    }
    if (count < 0 && errno != EINTR) {
      C10_THROW_ERROR(
          DistNetworkError,
          fmt::format("poll: {}", std::strerror(errno)));
    }
    if (Clock::now() >= end) {
      return false;
    }
  }
}

UniqueFd connect_to(
    const std::string& host,
    std::uint16_t port,
    Clock::time_point end) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* all = nullptr;
  if (const int error = ::getaddrinfo(
          host.c_str(),
          std::to_string(port).c_str(),
          &wanted,
          &all)) {
    C10_THROW_ERROR(
        DistNetworkError,
        fmt::format("{}: {}", host, ::gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(
      all,
      &::freeaddrinfo);
  return connect_to_one_of(all, end);
}

UniqueFd connect_to_one_of(const addrinfo* addresses, Clock::time_point end) {
  int left = 0;
  for (const auto* each = addresses; each != nullptr; each = each->ai_next) {
    ++left;
  }
  int error = EADDRNOTAVAIL;
  for (const auto* each = addresses; each != nullptr; each = each->ai_next) {
    const auto now = Clock::now();
    if (UniqueFd fd = try_address(*each, now + (end - now) / left--, error)) {
      return fd;
    }
  }
  C10_THROW_ERROR(DistNetworkError, std::strerror(error));
}

} // namespace cairn::distributed
