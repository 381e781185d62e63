#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace cairn::http {

struct Request {
  std::string method; ///< "GET"
  std::string path;   ///< "/v1/models"
  std::string query;  ///< after the "?"
  std::string authorization;
  std::string body;
};

struct Reply {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body{};
  std::vector<std::pair<std::string, std::string>> headers{};
};

/// The answer to one request, given at any time and from any thread. A request
/// is answered by reply(), or by begin(), write() and end(). Once the client
/// has gone, these do nothing. If nobody keeps the exchange, the connection is
/// closed. It must not outlive the server.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual void reply(Reply reply) = 0;
  /// Sends status, headers and the first part of a body of unknown length.
  virtual void begin(Reply head) = 0;
  virtual void write(std::string part) = 0;
  virtual void end() = 0;
  /// `gone` is called, on the server's thread, when the client leaves before
  /// it has its answer; at once if it has left.
  virtual void when_gone(std::function<void()> gone) = 0;
};

/// What a client may take. A request must arrive completely within `patience`,
/// and each part of an answer must leave within it.
struct Limits {
  std::size_t header_bytes = 16 << 10;
  std::size_t body_bytes = 0; ///< requests with more are refused
  std::size_t connections = 64;
  std::size_t unsent_bytes = 1 << 20; ///< of a streamed answer
  std::chrono::seconds patience{10};
};

struct ServerOptions {
  std::string address = "127.0.0.1";
  int port = 0; ///< 0: any free port
  Limits limits{};
  /// Answers requests for any host name. Otherwise only those for this
  /// machine's loopback names, so that a web page elsewhere cannot reach the
  /// server by a name of its own that leads here.
  bool any_host = false;
};

/// An HTTP/1.1 server with one thread, which no client can block. It refuses
/// requests that a browser sends for pages of other sites.
class Server {
 public:
  /// Called on the server's thread, which should be left soon.
  using Handler = std::function<void(Request, std::shared_ptr<Exchange>)>;

  /// Listens. Throws ConfigError when the address cannot be used.
  explicit Server(const ServerOptions& options);
  ~Server();
  Server(Server&&) noexcept;
  Server& operator=(Server&&) noexcept;

  int port() const;
  /// Serves until `ended` returns true, which is asked a few times a second.
  /// Then takes no new requests, and returns when those under way are answered
  /// or `drain` is over.
  void serve(
      const Handler& handler,
      const std::function<bool()>& ended,
      std::chrono::seconds drain = std::chrono::seconds(0));

 private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace cairn::http
