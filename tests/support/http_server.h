#pragma once

#include <cairn/base/file.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace cairn::testing {

/// The answer of a server to one request.
struct HttpAnswer {
  int status = 200;
  std::string body{};
  std::string etag = "\"one\""; ///< with its quotes; empty: none
  std::string last_modified{};
  std::string location{}; ///< for a redirect
  std::string retry_after{};
  bool ranges = true;                       ///< false: always the whole body
  std::optional<std::size_t> cut_after{};   ///< closes after so many bytes
  std::optional<std::size_t> claim{};       ///< says this Content-Length
  bool says_length = true;                  ///< false: the end is the close
  std::optional<std::size_t> claim_total{}; ///< says this in Content-Range
  std::chrono::milliseconds pause{};        ///< before every `chunk` bytes
  std::size_t chunk = 1 << 16;
  std::string headers{}; ///< further lines, each with "\r\n"
  bool whole = false;    ///< `body` is all of the answer, with its head
};

struct HttpQuestion {
  std::string path;
  std::map<std::string, std::string> headers; ///< names in lower case
};

/// An HTTP/1.1 server on this machine, with one thread and one connection at a
/// time. Each path has a list of answers; the last one is given again and
/// again, and a path without any is a 404.
class HttpServer {
 public:
  HttpServer();
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// "http://127.0.0.1:PORT" + path
  std::string address(const std::string& path) const;
  void answer(const std::string& path, std::vector<HttpAnswer> answers);
  std::vector<HttpQuestion> questions() const;

 private:
  void serve();
  void serve_one(int connection);
  bool send_all(int connection, std::string_view bytes) const;
  HttpAnswer next_answer(const HttpQuestion& question);
  void reply(
      int connection,
      const HttpQuestion& question,
      const HttpAnswer& answer) const;

  int port_ = 0;
  UniqueFd listener_;
  std::atomic<bool> stop_ = false;
  mutable std::mutex mutex_;
  std::map<std::string, std::vector<HttpAnswer>> answers_;
  std::vector<HttpQuestion> questions_;
  std::thread thread_;
};

/// A port on which nobody listens.
int unused_port();

} // namespace cairn::testing
