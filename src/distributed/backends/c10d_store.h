#pragma once

#include "distributed/start/store.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <atomic>
#include <chrono>

namespace cairn::distributed {

/// A Store over one of c10d's stores. The backends hand raw() to the library.
class C10dStore final : public Store {
 public:
  /// `socket` is that of the store's connection; -1 if it is not known.
  C10dStore(
      c10::intrusive_ptr<c10d::Store> raw,
      std::string address,
      int socket);

  void set(const std::string& key, const std::string& value) override;
  std::optional<std::string> get(const std::string& key) override;
  std::string set_once(const std::string& key, const std::string& value)
      override;
  void erase(const std::string& key) override;
  bool wait(
      const std::vector<std::string>& keys,
      std::chrono::milliseconds timeout) override;
  std::unique_ptr<Store> clone() override;
  std::string address() const override { return address_; }
  void limit_answers(std::chrono::milliseconds limit) override;
  void hang_up() override;

  const c10::intrusive_ptr<c10d::Store>& raw() const { return raw_; }

 private:
  template <typename Call>
  auto reach(Call call);

  c10::intrusive_ptr<c10d::Store> raw_;
  std::string address_;
  int socket_;
  std::chrono::milliseconds limit_{}; ///< of answers; zero: none
  /// True after a call without an answer: a late answer would be taken for that
  /// of the next call.
  std::atomic<bool> lost_ = false;
};

} // namespace cairn::distributed
