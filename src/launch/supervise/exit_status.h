#pragma once

#include <string>

namespace cairn::launch {

/// `exited with code 3` or `was killed by SIGKILL`, from waitpid's status.
std::string describe_exit(int status);

/// The exit code that a shell would report: the code, or 128 plus the signal.
int exit_code_of(int status);

std::string signal_name(int signal);

} // namespace cairn::launch
