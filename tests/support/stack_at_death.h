#pragma once

#include <execinfo.h>
#include <unistd.h>

#include <csignal>
#include <initializer_list>

namespace cairn::testing {

/// Makes a process that dies of a bad access or an abort write the calls of its
/// thread to stderr first. A sanitizer that does so itself stays.
inline void write_stack_at_death() {
  const auto write_and_die = [](int signal) {
    void* calls[64];
    ::backtrace_symbols_fd(calls, ::backtrace(calls, 64), STDERR_FILENO);
    std::signal(signal, SIG_DFL);
    ::raise(signal);
  };
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE}) {
    const auto before = std::signal(signal, write_and_die);
    if (before != SIG_DFL) {
      std::signal(signal, before);
    }
  }
}

} // namespace cairn::testing
