#pragma once

#include <exception>

namespace cairn::cli {

/// Thrown by throw_if_stopped() after Ctrl-C, SIGTERM or SIGHUP.
struct Stopped : std::exception {
  explicit Stopped(int signal) : exit_code(128 + signal) {}
  int exit_code; ///< the same as a shell's
};

/// Makes the first SIGINT, SIGTERM or SIGHUP ask for an end; the second one
/// ends the process, as without this call.
void watch_stop_signals();
void throw_if_stopped();

} // namespace cairn::cli
