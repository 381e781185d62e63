#include "support/http_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <stdexcept>
#include <string_view>

namespace cairn::testing {
namespace {

sockaddr_in local(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

UniqueFd bind_somewhere(int& port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  auto address = local(0);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  if (!fd || ::bind(fd.get(), generic, size) != 0 ||
      ::getsockname(fd.get(), generic, &size) != 0) {
    throw std::runtime_error("cannot bind a local port");
  }
  port = ntohs(address.sin_port);
  return fd;
}

/// Waits for bytes, or the other side's end; false when told to stop.
bool wait_for(int fd, const std::atomic<bool>& stop) {
  while (!stop) {
    pollfd poll{fd, POLLIN, 0};
    if (::poll(&poll, 1, 20) > 0) {
      return true;
    }
  }
  return false;
}

HttpQuestion parse(const std::string& text) {
  HttpQuestion question;
  const auto first = text.find(' ');
  question.path = text.substr(first + 1, text.find(' ', first + 1) - first - 1);
  std::size_t at = text.find("\r\n") + 2;
  while (at < text.size()) {
    const auto end = text.find("\r\n", at);
    const auto colon = text.find(": ", at);
    if (colon == text.npos || colon > end) {
      break;
    }
    std::string name = text.substr(at, colon - at);
    std::transform(name.begin(), name.end(), name.begin(), [](char c) {
      return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    });
    question.headers[name] = text.substr(colon + 2, end - colon - 2);
    at = end + 2;
  }
  return question;
}

/// The beginning of the range that is asked for; 0 for the whole.
std::size_t range_start(
    const HttpQuestion& question,
    const HttpAnswer& answer) {
  const auto range = question.headers.find("range");
  if (!answer.ranges || range == question.headers.end()) {
    return 0;
  }
  const auto condition = question.headers.find("if-range");
  if (condition != question.headers.end() && condition->second != answer.etag &&
      condition->second != answer.last_modified) {
    return 0;
  }
  return std::strtoull(range->second.c_str() + 6, nullptr, 10); // "bytes="
}

} // namespace

int unused_port() {
  int port = 0;
  bind_somewhere(port);
  return port;
}

HttpServer::HttpServer() : listener_(bind_somewhere(port_)) {
  if (::listen(listener_.get(), 16) != 0) {
    throw std::runtime_error("cannot listen");
  }
  thread_ = std::thread([this] { serve(); });
}

HttpServer::~HttpServer() {
  stop_ = true;
  thread_.join();
}

std::string HttpServer::address(const std::string& path) const {
  return fmt::format("http://127.0.0.1:{}{}", port_, path);
}

void HttpServer::answer(
    const std::string& path,
    std::vector<HttpAnswer> answers) {
  const std::lock_guard lock(mutex_);
  answers_[path] = std::move(answers);
}

std::vector<HttpQuestion> HttpServer::questions() const {
  const std::lock_guard lock(mutex_);
  return questions_;
}

void HttpServer::serve() {
  while (wait_for(listener_.get(), stop_)) {
    const UniqueFd connection(
        ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection) {
      serve_one(connection.get());
    }
  }
}

void HttpServer::serve_one(int connection) {
  std::string text;
  while (text.find("\r\n\r\n") == text.npos) {
    char buffer[4096];
    if (!wait_for(connection, stop_)) {
      return;
    }
    const auto got = ::recv(connection, buffer, sizeof buffer, 0);
    if (got <= 0) {
      return;
    }
    text.append(buffer, static_cast<std::size_t>(got));
  }
  const auto question = parse(text);
  reply(connection, question, next_answer(question));
}

HttpAnswer HttpServer::next_answer(const HttpQuestion& question) {
  const std::lock_guard lock(mutex_);
  questions_.push_back(question);
  const auto found = answers_.find(question.path);
  if (found == answers_.end() || found->second.empty()) {
    return {.status = 404, .body = "there is no such thing here"};
  }
  auto& answers = found->second;
  HttpAnswer answer = answers.front();
  if (answers.size() > 1) {
    answers.erase(answers.begin());
  }
  return answer;
}

bool HttpServer::send_all(int connection, std::string_view bytes) const {
  while (!bytes.empty() && !stop_) {
    const auto sent =
        ::send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) {
      return false;
    }
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return bytes.empty();
}

void HttpServer::reply(
    int connection,
    const HttpQuestion& question,
    const HttpAnswer& answer) const {
  std::size_t from = 0;
  int status = answer.status;
  std::string head;
  if (status == 200) {
    from = range_start(question, answer);
    if (from >= answer.body.size() && from > 0) {
      status = 416;
      head += fmt::format("Content-Range: bytes */{}\r\n", answer.body.size());
    } else if (from > 0) {
      status = 206;
      head += fmt::format(
          "Content-Range: bytes {}-{}/{}\r\n",
          from,
          answer.body.size() - 1,
          answer.claim_total.value_or(answer.body.size()));
    }
  }
  std::string_view body = answer.body;
  body.remove_prefix(std::min(from, body.size()));
  for (const auto& [name, value] :
       {std::pair("ETag", answer.etag),
        {"Last-Modified", answer.last_modified},
        {"Location", answer.location},
        {"Retry-After", answer.retry_after}}) {
    if (!value.empty()) {
      head += fmt::format("{}: {}\r\n", name, value);
    }
  }
  if (answer.says_length) {
    head += fmt::format(
        "Content-Length: {}\r\n",
        answer.claim.value_or(body.size()));
  }
  head = fmt::format(
      "HTTP/1.1 {} Said\r\nConnection: close\r\n{}{}\r\n",
      status,
      answer.headers,
      head);
  body = body.substr(
      0,
      std::min(answer.cut_after.value_or(body.size()), body.size()));
  if (!answer.whole && !send_all(connection, head)) {
    return;
  }
  while (!body.empty()) {
    // Waits in small steps, so that a server can be stopped.
    for (auto left = answer.pause; left.count() > 0 && !stop_;) {
      const auto step = std::min(left, std::chrono::milliseconds(10));
      std::this_thread::sleep_for(step);
      left -= step;
    }
    const auto part = body.substr(0, std::min(answer.chunk, body.size()));
    if (!send_all(connection, part)) {
      return;
    }
    body.remove_prefix(part.size());
  }
}

} // namespace cairn::testing
