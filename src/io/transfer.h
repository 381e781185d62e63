#pragma once

#include "io/open_file.h"

#include <cairn/base/error.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace cairn::io::detail {

enum class Direction : bool { read, write };

/// The first error that nobody waited for, kept for the queue's next call.
class LostError {
 public:
  void keep(Problem problem);
  void throw_if_any();

 private:
  std::mutex mutex_;
  std::optional<Problem> problem_;
};

/// A read or write as its caller sees it; it consists of requests.
class Transfer {
 public:
  struct Target {
    std::shared_ptr<OpenFile> file;
    std::shared_ptr<const std::filesystem::path> path; ///< for messages
    std::uint64_t offset = 0; ///< beginning of `path` in `file`
  };
  Transfer(
      Direction direction,
      Target target,
      std::size_t requests,
      std::shared_ptr<LostError> lost);

  Direction direction() const { return direction_; }
  const Target& target() const { return target_; }

  /// Called once for each request.
  void request_done();
  void request_failed(Problem problem);

  void wait(); ///< throws
  /// Waits; an error that no wait() has thrown goes to the queue.
  void abandon() noexcept;
  bool done() const;

 private:
  void wait_for_end(std::unique_lock<std::mutex>& lock);

  const Direction direction_;
  const Target target_;
  const std::shared_ptr<LostError> lost_;
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  std::size_t requests_left_;
  std::optional<Problem> problem_; ///< the first problem
  bool problem_thrown_ = false;
};

/// A part of a transfer, small enough for one system call if that moves all
/// bytes.
struct Request {
  std::shared_ptr<Transfer> transfer;
  std::byte* data = nullptr;
  std::size_t size = 0;
  std::uint64_t offset = 0; ///< in the file

  /// True when it may bypass the page cache.
  bool can_be_direct() const;

  /// Handles the result of a system call, a count or -errno. True when the
  /// request must be repeated for its remaining bytes; otherwise the request is
  /// over and its transfer has been told.
  bool needs_more(std::int64_t result, bool was_direct);

 private:
  void fail(int error_number) const;
  std::string place() const;
};

} // namespace cairn::io::detail
