#include "cli/launch/launch_flags.h"

#include "base/internal/edit_distance.h"
#include "cli/launch/launch_options.h"

#include <cairn/base/error.h>

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

namespace cairn::cli {
namespace {

using namespace cairn::launch;

/// Flags of DeepSpeed's launcher that Cairn refuses, with advice.
constexpr std::array<std::pair<std::string_view, std::string_view>, 10>
    refused_flags = {{
        {"--elastic_training", "the number of ranks is fixed; leave it out"},
        {"--min_elastic_nodes", "the number of ranks is fixed; leave it out"},
        {"--max_elastic_nodes", "the number of ranks is fixed; leave it out"},
        {"--launcher", "hosts are reached with ssh, or see --ssh-command"},
        {"--launcher_args", "put them into --ssh-command"},
        {"--ssh_port", "write --ssh-command 'ssh -p PORT'"},
        {"--module", "write python3 -m MODULE as the program"},
        {"--enable_each_rank_log", "use --log-dir"},
        {"--save_pid", "leave it out"},
        {"--force_multi",
         "leave it out: a host that is not this one is always "
         "reached with ssh"},
    }};

[[noreturn]] void refuse_flag(const CLI::App& app, const std::string& typed) {
  const auto flag = typed.substr(0, typed.find('='));
  const auto dashes = std::min(flag.find_first_not_of('-'), flag.size());
  auto underscored = flag;
  std::replace(
      underscored.begin() + static_cast<std::ptrdiff_t>(dashes),
      underscored.end(),
      '-',
      '_');
  for (const auto& [name, advice] : refused_flags) {
    if (underscored == name) {
      throw ConfigError(
          {.what = fmt::format(
               "{} is known to DeepSpeed, not supported by Cairn",
               flag),
           .remedy = std::string(advice)});
    }
  }
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_group().empty()) {
      for (const std::string& name : option->get_lnames()) {
        names.push_back("--" + name);
      }
    }
  }
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  const auto closest = nearest(flag, candidates);
  throw ConfigError(
      {.what = fmt::format("unknown flag {}", flag),
       .remedy = closest ? fmt::format("did you mean {}?", *closest)
                         : "`cairn launch --help` lists them; the program's "
                           "own come behind its name"});
}

} // namespace

std::optional<LaunchFlags> parse_launch_flags(const Arguments& arguments) {
  LaunchFlags flags;
  CLI::App app(
      "Runs PROGRAM once per rank, here or on many hosts. PROGRAM may also be "
      "a "
      "cairn command.\n",
      "cairn launch");
  app.prefix_command();
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::Throw);
  add_launch_options(app, flags);
  try {
    app.parse(Arguments(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    throw ConfigError({.what = error.what()});
  }
  check_purpose(app, flags);
  flags.program = app.remaining();
  if (!flags.program.empty() && flags.program.front() == "--") {
    flags.program.erase(flags.program.begin());
  } else if (!flags.program.empty() && flags.program.front().starts_with("-")) {
    refuse_flag(app, flags.program.front());
  }
  const bool needs_none = flags.print_kubernetes && flags.kubernetes.debug;
  if (flags.program.empty() && !needs_none) {
    throw ConfigError(
        {.what = "no program to run",
         .remedy = "write cairn launch [FLAGS…] PROGRAM [ARGUMENTS…]"});
  }
  return flags;
}

Variables chosen_environment(const LaunchFlags& flags) {
  Variables variables;
  for (const std::string& entry : flags.environment) {
    const auto equals = entry.find('=');
    const auto name = entry.substr(0, equals);
    if (!is_variable_name(name)) {
      throw ConfigError(
          {.what = fmt::format("--env {} names no variable", entry),
           .remedy = "write NAME=VALUE, or NAME to pass it on"});
    }
    if (is_set_by_launcher(name)) {
      throw ConfigError(
          {.what = fmt::format("--env {}: the launcher itself sets it", name),
           .remedy = "leave it out; flags such as --num_gpus and --master_addr "
                     "say where ranks run and meet, and CUDA_VISIBLE_DEVICES "
                     "is set for the launcher"});
    }
    if (equals != std::string::npos) {
      variables.emplace_back(name, entry.substr(equals + 1));
    } else if (const char* value = std::getenv(name.c_str())) {
      variables.emplace_back(name, value);
    } else {
      throw ConfigError(
          {.what = fmt::format("--env {}, but {} is not set here", name, name),
           .remedy = "write NAME=VALUE, or leave it out"});
    }
  }
  return variables;
}

bool is_command(std::string_view name) {
  const auto commands = all_commands();
  return std::any_of(commands.begin(), commands.end(), [&](const Command& c) {
    return c.name == name;
  });
}

} // namespace cairn::cli
