#pragma once

#include "launch/internal/node_plan.h"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::launch {

/// The ssh command used by default: it never waits for a password that nobody
/// will type, and notices a dead host within 30 s.
inline constexpr const char* default_ssh_command =
    "ssh -o BatchMode=yes -o ServerAliveInterval=10 -o ServerAliveCountMax=3";

/// A launcher that will run on another host.
struct RemoteLauncher {
  std::filesystem::path executable;
  std::filesystem::path directory; ///< working directory
  Variables environment;           ///< variables it needs from here
  std::vector<std::string> arguments;
};

/// A line for the remote user's shell that starts the launcher.
std::string remote_command(const RemoteLauncher& launcher);

/// The local command that runs `command` on `host`. `ssh_command` comes from
/// the user and is read by a shell, so it may have arguments.
std::vector<std::string> over_ssh(
    const std::string& ssh_command,
    const std::string& host,
    const std::string& command);

/// True when `host` is a name of this machine, so that ssh is not needed.
bool is_this_machine(std::string_view host);

/// The launcher's variables that ranks on other hosts need too, chosen as
/// DeepSpeed does: PATH, LD_LIBRARY_PATH and whole families such as NCCL_* and
/// PYTHON*.
Variables exported_variables(const std::vector<std::string>& environment);

/// Parses DeepSpeed's `.deepspeed_env`: lines `NAME=VALUE`, blank lines and `#`
/// comments. Throws ConfigError with the line number.
Variables parse_environment_file(std::string_view text, std::string_view file);

/// True when a shell would accept `name` as the name of a variable.
bool is_variable_name(std::string_view name);

} // namespace cairn::launch
