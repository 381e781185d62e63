#pragma once

#include "distributed/start/store.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace cairn::testing {

/// Requests of one rank so far, over all its connections.
struct StoreTally {
  std::atomic<std::uint64_t> requests = 0;
  std::atomic<std::uint64_t> keys = 0;
  std::atomic<std::uint64_t> connections = 0;
};

/// A store that counts the requests which it passes on.
class CountedStore final : public distributed::Store {
 public:
  CountedStore(
      std::unique_ptr<distributed::Store> store,
      std::shared_ptr<StoreTally> tally);

  void set(const std::string& key, const std::string& value) override;
  std::optional<std::string> get(const std::string& key) override;
  std::string set_once(const std::string& key, const std::string& value)
      override;
  void erase(const std::string& key) override;
  bool wait(
      const std::vector<std::string>& keys,
      std::chrono::milliseconds timeout) override;
  std::unique_ptr<distributed::Store> clone() override;
  std::string address() const override { return store_->address(); }
  void limit_answers(std::chrono::milliseconds limit) override {
    store_->limit_answers(limit);
  }
  void hang_up() override { store_->hang_up(); }

  /// Waits for the keys and reads them in two requests, as NCCL's side of c10d
  /// does.
  void read_all(const std::vector<std::string>& keys);

 private:
  void count(std::uint64_t requests, std::uint64_t keys);

  std::unique_ptr<distributed::Store> store_;
  std::shared_ptr<StoreTally> tally_;
};

} // namespace cairn::testing
