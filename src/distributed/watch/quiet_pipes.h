#pragma once

#include <signal.h>

namespace cairn::distributed {

/// Keeps SIGPIPE from this thread while it lives. Gloo writes to sockets whose
/// other end may be gone, which by default kills the process with SIGPIPE
/// instead of giving an error. Threads started meanwhile inherit the mask and
/// never get the signal. SIGPIPE in the rest of the process is not changed.
class QuietPipes {
 public:
  QuietPipes();
  ~QuietPipes();
  QuietPipes(const QuietPipes&) = delete;
  QuietPipes& operator=(const QuietPipes&) = delete;

 private:
  sigset_t before_;
  bool was_pending_;
};

} // namespace cairn::distributed
