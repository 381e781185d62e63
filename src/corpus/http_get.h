#pragma once

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

/// What the server says before the bytes.
struct HttpHead {
  long status = 0;
  std::optional<std::uint64_t> length;      ///< of the bytes that follow
  std::optional<std::uint64_t> range_start; ///< with status 206
  std::optional<std::uint64_t> range_total; ///< with status 206 or 416
  std::string etag;
  std::string last_modified;
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

/// Whether an answer from one address may send us on to the other.
bool may_redirect(const std::string& from, const std::string& to);

/// An address that http_get() can use; a ConfigError for any other.
void check_address(const std::string& address);

/// The address without a user's name and password, for messages.
std::string shown_address(const std::string& address);

} // namespace cairn::corpus
