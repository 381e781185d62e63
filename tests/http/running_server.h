#pragma once

#include "http/internal/server.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

namespace cairn::http::testing {

/// A server on a thread of its own, until the end of the scope.
class RunningServer {
 public:
  explicit RunningServer(
      Server::Handler handler,
      const Limits& limits = {.body_bytes = 1 << 16},
      std::chrono::seconds drain = std::chrono::seconds(0))
      : server_({.limits = limits}),
        thread_([this, handler = std::move(handler), drain] {
          server_.serve(
              handler,
              [this] { return ended_.load(); },
              drain);
        }) {}
  ~RunningServer() { end(); }

  int port() const { return server_.port(); }
  void ask_to_end() { ended_ = true; }
  void end() {
    ended_ = true;
    if (thread_.joinable()) {
      thread_.join();
    }
  }

 private:
  Server server_;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

} // namespace cairn::http::testing
