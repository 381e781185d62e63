#pragma once

#include <string>
#include <string_view>

namespace cairn::launch {

/// A secret that nobody can guess: 64 hexadecimal digits.
std::string new_job_secret();

/// Throws ConfigError for a secret that cannot be handed to the launchers on
/// other hosts: one with a line break, or of more than 1024 bytes.
void check_secret(std::string_view secret);

/// Reads the secret that the launcher which started this one writes to stdin
/// first. Command lines are seen by all users of a machine.
std::string secret_from_stdin();

} // namespace cairn::launch
