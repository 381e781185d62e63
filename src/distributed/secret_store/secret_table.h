#pragma once

#include <cairn/base/file.h>

#include <cstddef>
#include <memory>
#include <string>
#include <thread>

namespace cairn::distributed {

/// The table in which the ranks of a job meet, for those alone who know the
/// job's secret. One thread serves all connections.
///
/// Strangers cost little memory: a connection may say 64 bytes before it has
/// proved itself, and has ten seconds for it. There are no more than 256 of
/// them: when others wait, the oldest is hung up on after half a second.
class SecretTable {
 public:
  static constexpr std::size_t most_strangers = 256;

  /// Serves those who connect to `listener`, a listening socket.
  SecretTable(UniqueFd listener, std::string secret);
  /// Hangs up on all.
  ~SecretTable();
  SecretTable(const SecretTable&) = delete;
  SecretTable& operator=(const SecretTable&) = delete;

 private:
  UniqueFd end_; ///< closing it ends the thread
  std::thread serving_;
};

} // namespace cairn::distributed
