#pragma once

#include <cairn/launch/node_plan.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::launch {

/// ssh as it is run when nothing else is asked for: it never waits for a
/// password that nobody will type, and it notices a dead host within 30 s.
inline constexpr const char* default_ssh_command =
    "ssh -o BatchMode=yes -o ServerAliveInterval=10 -o ServerAliveCountMax=3";

/// The launcher that is to run on another host.
struct RemoteLauncher {
  std::filesystem::path executable;
  std::filesystem::path directory; ///< to run in
  Variables environment;           ///< that it needs from here
  std::vector<std::string> arguments;
};

/// One line for the remote user's shell.
std::string remote_command(const RemoteLauncher& launcher);

/// The local command that runs `command` on `host`. `ssh_command` is the user's
/// and is read by a shell, so it may have arguments of its own.
std::vector<std::string> over_ssh(
    const std::string& ssh_command,
    const std::string& host,
    const std::string& command);

/// Whether `host` is a name of the machine we run on, where ssh is not needed.
bool is_this_machine(std::string_view host);

/// Of the launcher's own variables those which ranks on other hosts need too,
/// as DeepSpeed picks them: PATH, LD_LIBRARY_PATH and whole families such as
/// NCCL_* and PYTHON*.
Variables exported_variables(const std::vector<std::string>& environment);

/// Reads lines `NAME=VALUE`, blank lines and `#` comments: DeepSpeed's
/// `.deepspeed_env`. Throws ConfigError with the line number.
Variables parse_environment_file(std::string_view text, std::string_view file);

/// Whether a shell would take `name` as the name of a variable.
bool is_variable_name(std::string_view name);

} // namespace cairn::launch
