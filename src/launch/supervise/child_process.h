#pragma once

#include <cairn/base/file.h>

#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace cairn::launch {

enum class StandardInput { nothing, pipe };

/// Everything needed to start one process.
struct ProcessSpec {
  std::vector<std::string> command;     ///< the first word is looked up on PATH
  std::vector<std::string> environment; ///< complete, as NAME=VALUE
  std::vector<int> cores;               ///< to bind to; empty: any
  StandardInput input = StandardInput::nothing;
  int terminal = -1;     ///< a descriptor to share; -1: none
  int error_memory = -1; ///< the same, for the error of the process
  /// The soft limit on file locks, by which the process and its descendants are
  /// known; 0: unchanged.
  std::uint64_t lock_limit = 0;
};

/// A running process, leader of its own process group. The kernel kills it when
/// the thread that started it ends. Destroying this object closes the pipes and
/// leaves the process alone.
struct ChildProcess {
  pid_t pid = -1;
  UniqueFd input;  ///< our end, if a pipe was asked for
  UniqueFd output; ///< our end of its stdout, non-blocking
  UniqueFd error;  ///< our end of its stderr, non-blocking
  std::chrono::steady_clock::time_point started;
};

/// Starts a process with `signal_mask`, the mask from before we blocked
/// signals. Throws ConfigError when the program cannot be run, and Error when
/// the system refuses to make a process.
ChildProcess start_process(
    const ProcessSpec& spec,
    const sigset_t& signal_mask);

/// The file that `name` stands for: `name` itself if it has a slash, else the
/// first executable of that name on PATH. Throws ConfigError when there is
/// none.
std::filesystem::path find_program(const std::string& name);

} // namespace cairn::launch
