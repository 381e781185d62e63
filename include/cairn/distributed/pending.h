#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

namespace cairn::distributed {

namespace detail {
struct PendingState;
} // namespace detail

/// A collective under way. Its tensors must not be touched before wait(). The
/// destructor waits as well; an error met there is thrown by the next call on
/// the group.
class [[nodiscard]] Pending {
 public:
  explicit Pending(std::unique_ptr<detail::PendingState> state);
  Pending(Pending&&) noexcept;
  Pending& operator=(Pending&&) noexcept;
  ~Pending();

  /// Blocks until the result is there and returns it; on a GPU, makes the
  /// current stream wait instead of the host. Throws CommError. May be called
  /// more than once.
  at::Tensor wait();
  /// wait() for calls that were given several tensors.
  std::vector<at::Tensor> wait_all();
  /// True when wait() would return at once.
  bool done() const;

 private:
  void finish() noexcept;

  std::unique_ptr<detail::PendingState> state_;
};

} // namespace cairn::distributed
