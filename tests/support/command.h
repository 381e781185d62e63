#pragma once

#include <string>
#include <vector>

namespace cairn::testing {

struct CommandResult {
  int exit_code; ///< 128 + signal when a signal ended it, as a shell says it
  std::string out;
  std::string err;
};

/// Runs a program to its end; argv[0] is its path.
CommandResult run_command(const std::vector<std::string>& argv);

} // namespace cairn::testing
