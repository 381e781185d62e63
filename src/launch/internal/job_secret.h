#pragma once

#include <string>

namespace cairn::launch {

/// A secret that nobody can guess: 64 hexadecimal digits.
std::string new_job_secret();

/// Reads the secret that the launcher which started this one writes to stdin
/// first. Command lines are seen by all users of a machine.
std::string secret_from_stdin();

} // namespace cairn::launch
