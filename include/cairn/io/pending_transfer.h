#pragma once

#include <memory>

namespace cairn::io {

namespace detail {
class Transfer;
} // namespace detail

/// A transfer under way. Until wait() its memory must stay valid, and memory
/// that is being read into must not be touched. The destructor waits too; the
/// next call on the queue throws an error found there.
class [[nodiscard]] PendingTransfer {
 public:
  PendingTransfer() = default; ///< nothing under way
  explicit PendingTransfer(std::shared_ptr<detail::Transfer> transfer);
  PendingTransfer(PendingTransfer&&) noexcept = default;
  PendingTransfer& operator=(PendingTransfer&& other) noexcept;
  ~PendingTransfer();

  /// Blocks until all bytes have moved. Any thread may call it. Throws
  /// DataError with path, offset and the system's reason. Further calls give
  /// the same result.
  void wait();
  /// True when wait() would return or throw at once.
  bool done() const;

 private:
  void finish() noexcept;

  std::shared_ptr<detail::Transfer> transfer_;
};

} // namespace cairn::io
