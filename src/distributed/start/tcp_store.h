#pragma once

#include "distributed/start/store.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace cairn::distributed {

struct TcpStoreOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 29500; ///< 0 on the server: any free port
  bool is_server = false;
  bool one_machine = false; ///< all who connect are on this machine
  /// A socket that already listens on `port`; the server takes it over.
  std::optional<int> listen_fd;
  std::chrono::milliseconds timeout{};
  /// Time without an answer after which `on_wait` is called, once.
  std::chrono::milliseconds patience = std::chrono::seconds(10);
  std::function<void()> on_wait{};
  std::string prefix; ///< put before all keys
  /// The secret that every connection must know. With one the table is a
  /// SecretTable; without, it is c10d's TCPStore, which serves whoever
  /// connects.
  std::string secret;
};

/// Starts or joins the table at host:port. Throws CommError when nobody answers
/// there in time, when the port is taken, or when the table has another secret.
std::unique_ptr<Store> open_tcp_store(const TcpStoreOptions& options);

} // namespace cairn::distributed
