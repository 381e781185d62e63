#pragma once

#include <cairn/config/zero_config.h>
#include <cairn/io/async_file.h>
#include <cairn/io/pending_transfer.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace cairn::io {

namespace detail {
class Engine;
enum class Direction : bool;
class LostError;
} // namespace detail

/// The mechanism that moves the bytes: the kernel's io_uring, or threads that
/// call pread(2) and pwrite(2). Both give the same results, at different
/// speeds.
enum class EngineKind { uring, threads };

const char* to_string(EngineKind kind);

/// Reads and writes files while the caller does something else.
///
///   IoQueue queue(config.aio);
///   PendingTransfer next = queue.read(file, offset, buffer.bytes());
///   …                                  // compute on another buffer meanwhile
///   next.wait();
///
/// A transfer is cut into requests of `block_size` bytes. `queue_depth`
/// requests are in flight at a time on each of `intra_op_parallelism` rings,
/// which have a thread each. Short transfers are continued. Transfers start in
/// order but may end in any order: two that touch the same bytes need a wait()
/// in between. One thread at a time may start transfers. The destructor
/// finishes all of them.
class IoQueue {
 public:
  /// Without a `kind`, uses io_uring if the kernel has it and lets us use it,
  /// else threads; why_not_uring() then tells the reason. With a `kind`, uses
  /// that or throws ConfigError. Also throws ConfigError for impossible
  /// settings.
  explicit IoQueue(
      const config::AioConfig& config = {},
      std::optional<EngineKind> kind = std::nullopt);
  ~IoQueue();
  IoQueue(const IoQueue&) = delete;
  IoQueue& operator=(const IoQueue&) = delete;

  EngineKind engine() const noexcept { return kind_; }
  /// The reason why io_uring is not used; empty if it is used or was not asked
  /// for.
  const std::string& why_not_uring() const noexcept { return why_not_uring_; }

  PendingTransfer read(
      const AsyncFile& file,
      std::uint64_t offset,
      std::span<std::byte> into);
  PendingTransfer write(
      const AsyncFile& file,
      std::uint64_t offset,
      std::span<const std::byte> from);

 private:
  PendingTransfer start(
      detail::Direction direction,
      const AsyncFile& file,
      std::uint64_t offset,
      std::span<std::byte> bytes);

  std::size_t block_size_;
  EngineKind kind_ = EngineKind::uring;
  std::string why_not_uring_;
  std::shared_ptr<detail::LostError> lost_;
  std::unique_ptr<detail::Engine> engine_;
};

} // namespace cairn::io
