#pragma once

#include "corpus/http_head.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace cairn::corpus {

struct HttpRequest {
  std::string address;
  std::uint64_t from = 0;     ///< ask for the bytes from here to the end
  std::string if_range{};     ///< … if the file still has this ETag or date
  std::string certificates{}; ///< file of trusted ones; empty: the system's
  std::chrono::milliseconds connect_timeout{20'000};
  std::chrono::milliseconds stall_timeout{30'000};
  int redirects = 10;
};

/// Takes the bytes. What it throws ends the transfer and leaves http_get().
class HttpSink {
 public:
  virtual ~HttpSink() = default;
  /// Once, before the first byte, and only with status 200 or 206.
  virtual void begin(const HttpHead& head) = 0;
  virtual void write(std::span<const char> bytes) = 0;
};

enum class HttpEnd {
  complete,
  transient,   ///< worth another try
  unreachable, ///< no such host, no route, nobody listens
  refused,     ///< will be so next time
};

struct HttpResult {
  HttpEnd end = HttpEnd::complete;
  HttpHead head;
  std::string trouble{};                             ///< empty when complete
  std::optional<std::chrono::seconds> retry_after{}; ///< the server's wish
};

/// One GET over HTTP or HTTPS, redirects followed: never from HTTPS to HTTP,
/// never to another scheme. Proxies are taken from the environment
/// (`https_proxy`, `no_proxy`, …).
HttpResult http_get(const HttpRequest& request, HttpSink& sink);

} // namespace cairn::corpus
