#include "launch/supervise/signal_watch.h"

#include <cairn/base/error.h>

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

namespace cairn::launch {

SignalWatch::SignalWatch() {
  sigemptyset(&watched_);
  sigaddset(&watched_, SIGCHLD);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    ::sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_IGN) {
      sigaddset(&watched_, signal);
    }
  }
  ::pthread_sigmask(SIG_BLOCK, &watched_, &previous_mask_);
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &previous_pipe_action_);
  fd_ = UniqueFd(::signalfd(-1, &watched_, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!fd_) {
    const int error = errno;
    ::pthread_sigmask(SIG_SETMASK, &previous_mask_, nullptr);
    ::sigaction(SIGPIPE, &previous_pipe_action_, nullptr);
    throw Error(
        {.what = "cannot watch for signals", .values = std::strerror(error)});
  }
}

SignalWatch::~SignalWatch() {
  // Discards signals that nobody took: the job is over.
  const timespec now{};
  while (::sigtimedwait(&watched_, nullptr, &now) > 0) {
  }
  ::sigaction(SIGPIPE, &previous_pipe_action_, nullptr);
  ::pthread_sigmask(SIG_SETMASK, &previous_mask_, nullptr);
}

std::vector<int> SignalWatch::take() {
  std::vector<int> signals;
  signalfd_siginfo info{};
  while (::read(fd_.get(), &info, sizeof info) ==
         static_cast<ssize_t>(sizeof info)) {
    signals.push_back(static_cast<int>(info.ssi_signo));
  }
  return signals;
}

} // namespace cairn::launch
