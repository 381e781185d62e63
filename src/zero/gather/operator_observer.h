#pragma once

#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <vector>

namespace cairn::zero {

/// Listener that is told when an operator is about to read or write a watched
/// storage, and when the operator is done, on the thread that runs it. `key` is
/// the one given to watch(), `offset` the first element of the storage that the
/// operator is given. A listener must not throw: libtorch would only log the
/// exception.
class UseListener {
 public:
  virtual void before_use(int key, std::int64_t offset) noexcept = 0;
  virtual void after_use(int key) noexcept = 0;

 protected:
  ~UseListener() = default;
};

/// Watches operators' inputs, in forward and backward, on every thread, for as
/// long as it lives. libtorch's modules have no hooks, but its dispatcher has.
/// Nothing needs wrapping: weights that are tied, or used in a lambda or far
/// from their module, are seen as well.
class OperatorObserver {
 public:
  explicit OperatorObserver(UseListener& listener) : listener_(listener) {}
  ~OperatorObserver();
  OperatorObserver(const OperatorObserver&) = delete;
  OperatorObserver& operator=(const OperatorObserver&) = delete;

  /// Watches a storage, which must outlive the observer or be unwatched.
  void watch(const c10::StorageImpl* storage, int key);
  void unwatch(const c10::StorageImpl* storage);

 private:
  UseListener& listener_;
  std::vector<const c10::StorageImpl*> storages_;
};

} // namespace cairn::zero
