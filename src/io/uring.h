#pragma once

#include "io/transfer.h"

#include <cairn/base/file.h>

#include <liburing.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace cairn::io::detail {

/// An io_uring and the thread that feeds it: requests are handed to the kernel
/// while the caller computes, even if there are more than the ring holds.
class Uring {
 public:
  struct Options {
    unsigned depth = 8; ///< requests in flight
    bool submit_one_by_one = false;
    /// Lets new requests join those in flight; when false the ring must be
    /// empty first.
    bool overlap = true;
  };
  /// Throws std::system_error when the kernel refuses.
  explicit Uring(Options options);
  ~Uring(); ///< finishes what was submitted

  Uring(const Uring&) = delete;
  Uring& operator=(const Uring&) = delete;

  void submit(std::vector<Request> requests);

 private:
  struct Close {
    void operator()(io_uring* ring) const noexcept;
  };
  struct Slot {
    Request request;
    bool direct = false;
  };

  void require_operations();
  void wake();
  void run();
  bool take_new(); ///< false when there is no more work
  void fill();
  void start(std::size_t slot);
  void enter_kernel(unsigned wait_for);
  void reap();
  void watch_for_wake();

  const Options options_;
  io_uring ring_storage_{};
  std::unique_ptr<io_uring, Close> ring_;
  UniqueFd wake_;

  std::mutex mutex_;
  std::vector<Request> new_;
  bool stop_ = false;

  // Used by the thread only.
  std::deque<Request> waiting_;
  std::vector<Slot> slots_;
  std::vector<std::size_t> free_slots_;

  std::thread thread_;
};

} // namespace cairn::io::detail
