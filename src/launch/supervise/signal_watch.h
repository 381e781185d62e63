#pragma once

#include <cairn/base/file.h>

#include <signal.h>

#include <vector>

namespace cairn::launch {

/// Reads signals from a descriptor. While one exists, SIGCHLD and the signals
/// that ask a launcher to stop (INT, TERM, HUP) arrive at the descriptor
/// instead of interrupting, and SIGPIPE is ignored. A stop signal that was
/// ignored before stays ignored: nohup and `&` rely on that.
class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  int fd() const { return fd_.get(); } ///< readable when `take` has signals
  const sigset_t& previous_mask() const { return previous_mask_; }

  /// The signals that have arrived since the last call.
  std::vector<int> take();

 private:
  UniqueFd fd_;
  sigset_t watched_{};
  sigset_t previous_mask_{};
  struct sigaction previous_pipe_action_ {};
};

} // namespace cairn::launch
