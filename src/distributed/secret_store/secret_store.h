#pragma once

#include "distributed/secret_store/secret_table.h"
#include "distributed/secret_store/table_message.h"

#include <cairn/base/file.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace cairn::distributed {

/// A connection to a SecretTable, as one of c10d's stores.
class SecretStore final : public c10d::Store {
 public:
  struct Place {
    std::string host;
    std::uint16_t port = 0;
    std::string secret;
    std::shared_ptr<SecretTable> table; ///< null unless it is in this process
  };

  /// Connects by `end`, and proves to know the secret. Throws
  /// c10::DistNetworkError when that is impossible now, and CommError when the
  /// secret is another one.
  SecretStore(
      std::shared_ptr<const Place> place,
      std::chrono::milliseconds timeout,
      std::chrono::steady_clock::time_point end);

  /// Connects as soon as the table is there and has room, by `end`: the same
  /// again and again, while the constructor throws c10::DistNetworkError.
  static c10::intrusive_ptr<SecretStore> connect(
      const std::shared_ptr<const Place>& place,
      std::chrono::milliseconds timeout,
      std::chrono::steady_clock::time_point end);

  /// The socket of the connection.
  int socket() const { return fd_.get(); }

  c10::intrusive_ptr<c10d::Store> clone() override;
  using c10d::Store::compareSet;
  using c10d::Store::set;
  void set(const std::string& key, const std::vector<std::uint8_t>& value)
      override;
  std::vector<std::uint8_t> compareSet(
      const std::string& key,
      const std::vector<std::uint8_t>& expected,
      const std::vector<std::uint8_t>& desired) override;
  std::vector<std::uint8_t> get(const std::string& key) override;
  std::int64_t add(const std::string& key, std::int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  std::int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(
      const std::vector<std::string>& keys,
      const std::chrono::milliseconds& timeout) override;

 private:
  std::string ask(
      const TableMessage& question,
      std::chrono::milliseconds wait = {});
  TableMessage hear(std::chrono::milliseconds wait);

  std::shared_ptr<const Place> place_;
  UniqueFd fd_;
  std::mutex mutex_;  ///< one question at a time
  std::string read_;  ///< bytes of the next answer
  bool lost_ = false; ///< true after a question without an answer
};

} // namespace cairn::distributed
