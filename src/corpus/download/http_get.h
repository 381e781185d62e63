#pragma once

#include "corpus/download/http_head.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace cairn::corpus {

struct HttpRequest {
  std::string address;
  std::uint64_t from = 0;     ///< first byte to ask for
  std::string if_range{};     ///< condition for `from`: this ETag or date
  std::string certificates{}; ///< file of trusted ones; empty: the system's
  std::chrono::milliseconds connect_timeout{20'000};
  std::chrono::milliseconds stall_timeout{30'000};
  /// For the whole exchange, however steadily bytes come; 0: any.
  std::chrono::milliseconds longest_time{0};
  int redirects = 10;
  std::string user_agent = "cairn-data-download";
  /// Asks for compressed answers. The sink gets the bytes unpacked.
  bool compressed = false;
  /// Refuses to connect to private networks and to this machine, unless through
  /// a proxy, whose business that is. What `no_proxy` lists goes through it,
  /// too.
  bool public_only = false;
};

/// Receives the bytes. An exception ends the transfer and leaves http_get().
class HttpSink {
 public:
  virtual ~HttpSink() = default;
  /// Called once, before the first byte, and only with status 200 or 206.
  virtual void begin(const HttpHead& head) = 0;
  virtual void write(std::span<const char> bytes) = 0;
};

enum class HttpEnd {
  complete,
  transient,   ///< worth another try
  unreachable, ///< no such host, no route, not listening
  refused,     ///< would fail again
};

struct HttpResult {
  HttpEnd end = HttpEnd::complete;
  HttpHead head;
  std::string trouble{};        ///< empty when complete
  bool answered = false;        ///< wholly, whatever the status
  std::string redirect{};       ///< an address that was not followed
  bool too_slow = false;        ///< nothing came, or not all, in the time
  bool private_network = false; ///< refused by `public_only`
  std::optional<std::chrono::seconds> retry_after{}; ///< as the server asks
};

/// Gets things over HTTP one after another, for one thread. Connections stay
/// open for the next request to the same server.
class HttpClient {
 public:
  HttpClient();
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// See http_get().
  HttpResult get(const HttpRequest& request, HttpSink& sink);

 private:
  void* handle_; ///< curl's
};

/// Makes one GET over HTTP or HTTPS and follows redirects, but never from HTTPS
/// to HTTP or to another scheme. Proxies come from the environment
/// (`https_proxy`, `no_proxy`, …).
HttpResult http_get(const HttpRequest& request, HttpSink& sink);

} // namespace cairn::corpus
