#pragma once

#include <cairn/base/file.h>

#include <chrono>
#include <string>
#include <string_view>

namespace cairn::testing {

/// A connection to a server on this machine, for any bytes.
class HttpClient {
 public:
  /// Throws CommError if nobody listens.
  explicit HttpClient(int port);

  void send(std::string_view bytes);
  /// What the server sent so far, once it holds `text`, the connection is
  /// closed, or `patience` is over.
  const std::string& read_until(
      std::string_view text,
      std::chrono::milliseconds patience = std::chrono::seconds(20));
  /// All that the server sends until it closes the connection.
  const std::string& read_all() { return read_until(std::string_view()); }
  bool is_closed() const noexcept { return closed_; }

 private:
  UniqueFd socket_;
  std::string received_;
  bool closed_ = false;
};

/// The server's whole answer to `question`, which should ask for a close.
std::string ask(int port, std::string_view question);
std::string get(int port, std::string_view path);
std::string post(
    int port,
    std::string_view path,
    std::string_view body,
    std::string_view method = "POST");

/// The body of an answer.
std::string body_of(std::string_view answer);

} // namespace cairn::testing
