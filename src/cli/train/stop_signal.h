#pragma once

#include <exception>

namespace cairn::cli {

/// Ctrl-C or a polite kill, thrown by throw_if_stopped().
struct Stopped : std::exception {
  explicit Stopped(int signal) : exit_code(128 + signal) {}
  int exit_code; ///< as a shell has it
};

/// From now on the first such signal asks for an end; the second one is that of
/// the system.
void watch_stop_signals();
void throw_if_stopped();

} // namespace cairn::cli
