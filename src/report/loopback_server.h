#pragma once

#include <cairn/base/unique_fd.h>

#include <chrono>
#include <functional>
#include <list>
#include <string>
#include <string_view>

namespace cairn::report {

struct HttpReply {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body{};
};

/// A small HTTP server for one person on this machine: it listens on 127.0.0.1
/// alone, answers GET and HEAD, one question per connection, and refuses
/// questions that were meant for another host, so that no web page elsewhere
/// can read what it serves. One thread; nobody can make it wait.
class LoopbackServer {
 public:
  /// Gets the target ("/data.json?after=3") of each question.
  using Answer = std::function<HttpReply(std::string_view target)>;

  /// Throws ConfigError where the port cannot be had; 0 takes any.
  explicit LoopbackServer(int port);

  int port() const noexcept { return port_; }
  /// Until `ended`, which is asked a few times a second.
  void serve(const Answer& answer, const std::function<bool()>& ended);

 private:
  using Clock = std::chrono::steady_clock;
  struct Connection {
    UniqueFd socket;
    Clock::time_point deadline{};
    std::string question{};
    std::string reply{}; ///< what is left of it
  };
  void accept_some();
  /// False when it is over.
  static bool read_some(Connection& connection, const Answer& answer);
  static bool write_some(Connection& connection);

  UniqueFd listener_;
  int port_ = 0;
  std::list<Connection> connections_;
};

} // namespace cairn::report
