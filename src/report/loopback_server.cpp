#include "report/loopback_server.h"

#include <cairn/base/error.h>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <optional>
#include <vector>

namespace cairn::report {
namespace {

constexpr std::size_t longest_question = 16 << 10;
constexpr std::size_t most_connections = 64;
constexpr std::chrono::seconds patience{10};
constexpr int look_milliseconds = 200;

std::string_view words_for(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 431:
      return "Request Header Fields Too Large";
    default:
      return "Internal Server Error";
  }
}

std::string http_text(const HttpReply& reply, bool with_body) {
  std::string text = fmt::format(
      "HTTP/1.1 {} {}\r\n"
      "Content-Type: {}\r\n"
      "Content-Length: {}\r\n"
      "Cache-Control: no-store\r\n"
      "X-Content-Type-Options: nosniff\r\n"
      "Cross-Origin-Resource-Policy: same-origin\r\n"
      "Connection: close\r\n\r\n",
      reply.status,
      words_for(reply.status),
      reply.type,
      reply.body.size());
  if (with_body) {
    text += reply.body;
  }
  return text;
}

bool same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

/// The value of a header, without surrounding spaces.
std::optional<std::string_view> header(
    std::string_view question,
    std::string_view name) {
  for (auto at = question.find("\r\n"); at != question.npos;
       at = question.find("\r\n", at)) {
    at += 2;
    const std::string_view line =
        question.substr(at, question.find("\r\n", at) - at);
    const auto colon = line.find(':');
    if (colon == line.npos || !same_name(line.substr(0, colon), name)) {
      continue;
    }
    std::string_view value = line.substr(colon + 1);
    value.remove_prefix(std::min(value.find_first_not_of(" \t"), value.size()));
    return value.substr(0, value.find_last_not_of(" \t") + 1);
  }
  return std::nullopt;
}

/// True for names of this machine, with any port: ssh -L may have changed the
/// port.
bool is_this_machine(std::string_view host) {
  const auto colon = host.rfind(':');
  if (colon != host.npos && host.find(']', colon) == host.npos) {
    host = host.substr(0, colon);
  }
  return host == "127.0.0.1" || same_name(host, "localhost") || host == "[::1]";
}

/// The reply to a complete request, which ends with an empty line.
std::string reply_text(
    std::string_view question,
    const LoopbackServer::Answer& answer) {
  const std::string_view line = question.substr(0, question.find("\r\n"));
  const auto first = line.find(' ');
  const auto second = line.find(' ', std::min(first, line.size() - 1) + 1);
  if (first == line.npos || second == line.npos ||
      !line.substr(second + 1).starts_with("HTTP/1.") ||
      line[first + 1] != '/') {
    return http_text({.status = 400, .body = "that is no HTTP\n"}, true);
  }
  const std::string_view method = line.substr(0, first);
  if (method != "GET" && method != "HEAD") {
    return http_text({.status = 405, .body = "only GET and HEAD\n"}, true);
  }
  const auto host = header(question, "host");
  if (!host || !is_this_machine(*host)) {
    return http_text(
        {.status = 403, .body = "this page is for 127.0.0.1 alone\n"},
        true);
  }
  HttpReply reply;
  try {
    reply = answer(line.substr(first + 1, second - first - 1));
  } catch (const Error& error) {
    reply = {.status = 500, .body = std::string(error.what()) + "\n"};
  }
  return http_text(reply, method == "GET" && reply.status != 204);
}

} // namespace

LoopbackServer::LoopbackServer(int port) {
  listener_ = UniqueFd(
      ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int yes = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  if (!listener_ ||
      ::setsockopt(
          listener_.get(),
          SOL_SOCKET,
          SO_REUSEADDR,
          &yes,
          sizeof yes) != 0 ||
      ::bind(listener_.get(), generic, size) != 0 ||
      ::listen(listener_.get(), 16) != 0 ||
      ::getsockname(listener_.get(), generic, &size) != 0) {
    const int reason = errno;
    throw ConfigError(
        {.what = reason == EADDRINUSE
             ? std::string("another program listens there already")
             : fmt::format("cannot listen: {}", std::strerror(reason)),
         .where = fmt::format("127.0.0.1:{}", port),
         .remedy = "choose another port with --port; 0 takes any"});
  }
  port_ = ntohs(address.sin_port);
}

void LoopbackServer::accept_some() {
  while (connections_.size() < most_connections) {
    UniqueFd socket(::accept4(
        listener_.get(),
        nullptr,
        nullptr,
        SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      return;
    }
    connections_.push_back(
        {.socket = std::move(socket), .deadline = Clock::now() + patience});
  }
}

bool LoopbackServer::read_some(Connection& connection, const Answer& answer) {
  std::array<char, 4096> buffer{};
  const ssize_t got =
      ::recv(connection.socket.get(), buffer.data(), buffer.size(), 0);
  if (got <= 0) {
    return got < 0 && (errno == EAGAIN || errno == EINTR);
  }
  connection.question.append(buffer.data(), static_cast<std::size_t>(got));
  const auto end = connection.question.find("\r\n\r\n");
  if (end != std::string::npos) {
    connection.reply = reply_text(
        std::string_view(connection.question).substr(0, end + 2),
        answer);
  } else if (connection.question.size() > longest_question) {
    connection.reply = http_text(
        {.status = 431, .body = "that is too long a question\n"},
        true);
  }
  return connection.reply.empty() || write_some(connection);
}

bool LoopbackServer::write_some(Connection& connection) {
  const ssize_t sent = ::send(
      connection.socket.get(),
      connection.reply.data(),
      connection.reply.size(),
      MSG_NOSIGNAL);
  if (sent < 0) {
    return errno == EAGAIN || errno == EINTR;
  }
  connection.reply.erase(0, static_cast<std::size_t>(sent));
  if (connection.reply.empty()) {
    ::shutdown(connection.socket.get(), SHUT_WR);
    return false;
  }
  connection.deadline = Clock::now() + patience;
  return true;
}

void LoopbackServer::serve(
    const Answer& answer,
    const std::function<bool()>& ended) {
  while (!ended()) {
    std::vector<pollfd> waits;
    const bool room = connections_.size() < most_connections;
    waits.push_back(
        {listener_.get(), static_cast<short>(room ? POLLIN : 0), 0});
    for (const Connection& connection : connections_) {
      waits.push_back(
          {connection.socket.get(),
           static_cast<short>(connection.reply.empty() ? POLLIN : POLLOUT),
           0});
    }
    if (::poll(waits.data(), waits.size(), look_milliseconds) < 0) {
      continue; // a signal: check `ended` again
    }
    auto wait = waits.begin() + 1;
    for (auto at = connections_.begin(); at != connections_.end(); ++wait) {
      bool goes_on = Clock::now() < at->deadline;
      if (goes_on && wait->revents != 0) {
        goes_on = at->reply.empty() ? read_some(*at, answer) : write_some(*at);
      }
      at = goes_on ? std::next(at) : connections_.erase(at);
    }
    if (waits.front().revents != 0) {
      accept_some();
    }
  }
}

} // namespace cairn::report
