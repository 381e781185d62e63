#pragma once

#include <cairn/base/unique_fd.h>

#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace cairn::launch {

enum class StandardInput { nothing, pipe };

/// What it takes to start one process.
struct ProcessSpec {
  std::vector<std::string> command;     ///< the first word is found on PATH
  std::vector<std::string> environment; ///< all of it, as NAME=VALUE
  std::vector<int> cores;               ///< to bind to; empty: any
  StandardInput input = StandardInput::nothing;
  int terminal = -1; ///< a descriptor that it shares with us; -1: none
};

/// A running process, leader of its own process group, that the kernel kills
/// when the thread that started it ends. Destroying this closes the pipes and
/// leaves the process alone.
struct ChildProcess {
  pid_t pid = -1;
  UniqueFd input;  ///< our end, where a pipe was asked for
  UniqueFd output; ///< our end of its stdout, non-blocking
  UniqueFd error;  ///< our end of its stderr, non-blocking
  std::chrono::steady_clock::time_point started;
};

/// Starts it with `signal_mask`, the mask from before we blocked signals.
/// Throws ConfigError when the program cannot be run, InternalError when the
/// system refuses to make a process.
ChildProcess start_process(
    const ProcessSpec& spec,
    const sigset_t& signal_mask);

/// The file that `name` stands for: itself when it has a slash, otherwise the
/// first executable on PATH. Throws ConfigError when there is none.
std::filesystem::path find_program(const std::string& name);

} // namespace cairn::launch
