#include "launch/internal/remote_command.h"

#include "base/internal/trimmed.h"
#include "launch/escaped.h"
#include "launch/internal/shell_quote.h"

#include <cairn/base/error.h>

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace cairn::launch {
namespace {

constexpr std::array exported_names = {
    std::string_view("PATH"),
    std::string_view("LD_LIBRARY_PATH"),
    std::string_view("LD_PRELOAD"),
    std::string_view("CUDA_DEVICE_MAX_CONNECTIONS")};

constexpr std::array exported_families = {
    std::string_view("NCCL"),
    std::string_view("GLOO_"),
    std::string_view("UCX"),
    std::string_view("MV2"),
    std::string_view("TORCH_"),
    std::string_view("OMP_"),
    std::string_view("MKL_"),
    std::string_view("PYTHON"),
    std::string_view("MLFLOW")};

bool is_exported(std::string_view name) {
  return std::find(exported_names.begin(), exported_names.end(), name) !=
      exported_names.end() ||
      std::any_of(
             exported_families.begin(),
             exported_families.end(),
             [&](std::string_view family) { return name.starts_with(family); });
}

} // namespace

std::string remote_command(const RemoteLauncher& launcher) {
  std::vector<std::string> words = {"env"};
  for (const auto& [name, value] : launcher.environment) {
    words.push_back(fmt::format("{}={}", name, value));
  }
  words.push_back(launcher.executable.string());
  words.insert(
      words.end(),
      launcher.arguments.begin(),
      launcher.arguments.end());
  return fmt::format(
      "cd {} && exec {}",
      shell_quote(launcher.directory.string()),
      shell_join(words));
}

std::vector<std::string> over_ssh(
    const std::string& ssh_command,
    const std::string& host,
    const std::string& command) {
  return {
      "/bin/sh",
      "-c",
      fmt::format("exec {} \"$@\"", ssh_command),
      "sh",
      host,
      command};
}

bool is_this_machine(std::string_view host) {
  if (host == "localhost" || host == "127.0.0.1") {
    return true;
  }
  std::array<char, 256> buffer{};
  if (::gethostname(buffer.data(), buffer.size() - 1) != 0) {
    return false;
  }
  const std::string_view own(buffer.data());
  const auto first_label = [](std::string_view name) {
    return name.substr(0, name.find('.'));
  };
  // Either name may lack the domain, but two different domains mean two
  // machines.
  const bool one_is_short = host.find('.') == std::string_view::npos ||
      own.find('.') == std::string_view::npos;
  return host == own || (one_is_short && first_label(host) == first_label(own));
}

Variables exported_variables(const std::vector<std::string>& environment) {
  Variables exported;
  for (const std::string& entry : environment) {
    const auto equals = entry.find('=');
    const auto name = entry.substr(0, equals);
    // Exported shell functions have names such as BASH_FUNC_x%%; `env` would
    // accept them, but nothing on the other host needs them.
    if (equals != std::string::npos && is_variable_name(name) &&
        is_exported(name)) {
      exported.emplace_back(name, entry.substr(equals + 1));
    }
  }
  return exported;
}

bool is_variable_name(std::string_view name) {
  return !name.empty() && (name.front() < '0' || name.front() > '9') &&
      std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
            (c >= '0' && c <= '9') || c == '_';
      });
}

Variables parse_environment_file(std::string_view text, std::string_view file) {
  Variables variables;
  for (int number = 1; !text.empty(); ++number) {
    const auto raw = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(raw.size() + 1, text.size()));
    const auto line = trimmed(raw);
    if (line.empty() || line.front() == '#') {
      continue;
    }
    const auto equals = line.find('=');
    const auto name = trimmed(line.substr(0, equals));
    if (equals == std::string_view::npos || !is_variable_name(name) ||
        line.find('\0') != std::string_view::npos) {
      throw ConfigError(
          {.what = fmt::format("bad line {}", escaped(line)),
           .where = fmt::format("{}:{}", file, number),
           .remedy = "write NAME=VALUE"});
    }
    variables.emplace_back(name, trimmed(line.substr(equals + 1)));
  }
  return variables;
}

} // namespace cairn::launch
