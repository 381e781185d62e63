#include "cli/train/stop_signal.h"

#include <signal.h>

#include <initializer_list>

namespace cairn::cli {
namespace {

volatile sig_atomic_t stopped_by = 0;

} // namespace

void watch_stop_signals() {
  struct sigaction action {};
  action.sa_handler = [](int signal) { stopped_by = signal; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    ::sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) { // nohup and `&` rely on that
      ::sigaction(signal, &action, nullptr);
    }
  }
}

void throw_if_stopped() {
  if (stopped_by != 0) {
    throw Stopped(stopped_by);
  }
}

} // namespace cairn::cli
