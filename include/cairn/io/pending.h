#pragma once

#include <memory>

namespace cairn::io {

namespace detail {
class Transfer;
} // namespace detail

/// A transfer under way. Its memory must stay, and what is being read must not
/// be touched, before wait(). Dropping one waits as well; an error met there is
/// thrown by the next call on the queue.
class [[nodiscard]] Pending {
 public:
  Pending() = default; ///< nothing under way
  explicit Pending(std::shared_ptr<detail::Transfer> transfer);
  Pending(Pending&&) noexcept = default;
  Pending& operator=(Pending&& other) noexcept;
  ~Pending();

  /// Blocks until all bytes have moved; any thread may. Throws DataError with
  /// path, offset and the system's reason. May be called again, and says the
  /// same again.
  void wait();
  /// Whether wait() would return (or throw) at once.
  bool done() const;

 private:
  void finish() noexcept;

  std::shared_ptr<detail::Transfer> transfer_;
};

} // namespace cairn::io
