#include "support/http_client.h"

#include <cairn/base/error.h>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstdint>

namespace cairn::testing {

HttpClient::HttpClient(int port)
    : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(
          socket_.get(),
          reinterpret_cast<sockaddr*>(&address),
          sizeof address) != 0) {
    throw CommError({.what = "no connection"});
  }
}

void HttpClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent =
        ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) {
      return; // the server has closed the connection, which reading shows
    }
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

const std::string& HttpClient::read_until(
    std::string_view text,
    std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  char buffer[4096];
  while (!closed_ && (text.empty() || received_.find(text) == received_.npos)) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd wait{socket_.get(), POLLIN, 0};
    if (left.count() <= 0 ||
        ::poll(&wait, 1, static_cast<int>(left.count())) <= 0) {
      break;
    }
    const ssize_t got = ::recv(socket_.get(), buffer, sizeof buffer, 0);
    if (got <= 0) {
      closed_ = true;
    } else {
      received_.append(buffer, static_cast<std::size_t>(got));
    }
  }
  return received_;
}

std::string ask(int port, std::string_view question) {
  HttpClient client(port);
  client.send(question);
  return client.read_all();
}

std::string get(int port, std::string_view path) {
  return ask(
      port,
      fmt::format(
          "GET {} HTTP/1.1\r\nHost: localhost:1234\r\n"
          "Connection: close\r\n\r\n",
          path));
}

std::string post(
    int port,
    std::string_view path,
    std::string_view body,
    std::string_view method) {
  return ask(
      port,
      fmt::format(
          "{} {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
          "Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
          method,
          path,
          body.size(),
          body));
}

std::string body_of(std::string_view answer) {
  const auto end = answer.find("\r\n\r\n");
  return end == answer.npos ? std::string()
                            : std::string(answer.substr(end + 4));
}

} // namespace cairn::testing
