#pragma once

#include <cairn/base/file.h>

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

/// A small HTTP server for one person on this machine. It listens on 127.0.0.1
/// only, answers GET and HEAD, one request per connection, and refuses requests
/// that were meant for another host, so that no web page elsewhere can read
/// what it serves. It has one thread, and no client can block it.
class LoopbackServer {
 public:
  /// Called with the target ("/data.json?after=3") of each request.
  using Answer = std::function<HttpReply(std::string_view target)>;

  /// Throws ConfigError when the port cannot be used; 0 takes any free port.
  explicit LoopbackServer(int port);

  int port() const noexcept { return port_; }
  /// Serves until `ended` returns true; it is called a few times a second.
  void serve(const Answer& answer, const std::function<bool()>& ended);

 private:
  using Clock = std::chrono::steady_clock;
  struct Connection {
    UniqueFd socket;
    Clock::time_point deadline{};
    std::string question{};
    std::string reply{}; ///< the part not yet sent
  };
  void accept_some();
  /// Both return false when the connection is over.
  static bool read_some(Connection& connection, const Answer& answer);
  static bool write_some(Connection& connection);

  UniqueFd listener_;
  int port_ = 0;
  std::list<Connection> connections_;
};

} // namespace cairn::report
