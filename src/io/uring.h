#pragma once

#include "io/transfer.h"

#include <cairn/base/unique_fd.h>

#include <liburing.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace cairn::io::detail {

/// An io_uring and the thread that feeds it: requests go on being handed to the
/// kernel while the caller computes, however many more there are than the ring
/// holds.
class Uring {
 public:
  struct Options {
    unsigned depth = 8; ///< requests in flight
    bool submit_one_by_one = false;
    /// Whether a new request may join those in flight; else the ring empties
    /// first.
    bool overlap = true;
  };
  /// Throws std::system_error where the kernel refuses.
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
  bool take_new(); ///< false when there is nothing to come any more
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

  // The thread's own.
  std::deque<Request> waiting_;
  std::vector<Slot> slots_;
  std::vector<std::size_t> free_slots_;

  std::thread thread_;
};

} // namespace cairn::io::detail
