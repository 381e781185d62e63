#include "distributed/watch/quiet_pipes.h"

#include <time.h>

namespace cairn::distributed {
namespace {

sigset_t only_sigpipe() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGPIPE);
  return set;
}

bool is_pending() {
  sigset_t pending;
  ::sigpending(&pending);
  return ::sigismember(&pending, SIGPIPE) == 1;
}

} // namespace

QuietPipes::QuietPipes() : was_pending_(is_pending()) {
  const sigset_t set = only_sigpipe();
  ::pthread_sigmask(SIG_BLOCK, &set, &before_);
}

QuietPipes::~QuietPipes() {
  // A signal raised meanwhile is pending for this thread: take it away before
  // the mask is restored.
  if (!was_pending_ && is_pending()) {
    const sigset_t set = only_sigpipe();
    const timespec now = {};
    ::sigtimedwait(&set, nullptr, &now);
  }
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

} // namespace cairn::distributed
