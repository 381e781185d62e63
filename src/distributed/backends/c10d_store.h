#pragma once

#include "distributed/start/store.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace cairn::distributed {

/// A Store over one of c10d's stores. The backends hand raw() to the library.
class C10dStore final : public Store {
 public:
  C10dStore(c10::intrusive_ptr<c10d::Store> raw, std::string address);

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

  const c10::intrusive_ptr<c10d::Store>& raw() const { return raw_; }

 private:
  c10::intrusive_ptr<c10d::Store> raw_;
  std::string address_;
};

} // namespace cairn::distributed
