#include "base/internal/freed_memory.h"
#include "base/internal/job_secret.h"
#include "cli/launch/launch_flags.h"
#include "cli/launch/patience.h"
#include "cli/program/command.h"
#include "cli/tune/tune_by_launcher.h"
#include "launch/internal/free_port.h"
#include "launch/internal/host_filter.h"
#include "launch/internal/job.h"
#include "launch/internal/job_ranks.h"
#include "launch/internal/job_secret.h"
#include "launch/internal/machine.h"
#include "launch/internal/node_plan.h"
#include "launch/internal/remote_command.h"
#include "launch/internal/shared_gpu.h"
#include "launch/internal/shell_quote.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <cairn/base/log.h>

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace cairn::cli {
namespace {

using namespace cairn::launch;

std::filesystem::path own_executable() {
  return std::filesystem::read_symlink("/proc/self/exe");
}

bool is_this_program(const std::string& word) {
  std::error_code other;
  return std::filesystem::equivalent(word, own_executable(), other);
}

/// Chooses the program. A bare word that is a cairn command means that command,
/// even if a program of that name is on PATH: a job must not depend on other
/// installed programs.
Program choose_program(const LaunchFlags& flags) {
  Program program{
      .command = flags.program,
      .takes_local_rank = !flags.no_local_rank};
  if (is_command(flags.program.front())) {
    program.command.insert(program.command.begin(), own_executable().string());
    program.takes_local_rank = false; // it reads the environment
  } else if (is_this_program(flags.program.front())) {
    program.takes_local_rank = false;
  } else if (!flags.no_python && flags.program.front().ends_with(".py")) {
    // DeepSpeed's launcher runs scripts in the same way. With -u a script's
    // lines come out when it prints them.
    program.command.insert(program.command.begin(), {"python3", "-u"});
  }
  return program;
}

/// The restarts by the process that started this launcher.
int restarts_before() {
  const char* text = std::getenv("CAIRN_RESTART_COUNT");
  if (text == nullptr) {
    return 0;
  }
  const std::string_view digits(text);
  int count = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), count);
  if (error != std::errc{} || end != digits.data() + digits.size() ||
      count < 0) {
    throw ConfigError(
        {.what = fmt::format("CAIRN_RESTART_COUNT is \"{}\"", digits),
         .remedy = "unset it; the launcher sets it for the ranks"});
  }
  return count;
}

JobRanks find_world(const LaunchFlags& flags, const Machine& machine) {
  if (flags.all_hosts.empty()) {
    return choose_ranks(flags.world, machine);
  }
  JobRanks world;
  world.hosts = parse_world(flags.all_hosts);
  world.master_addr = flags.world.master_addr;
  world.master_port = flags.world.master_port;
  return world;
}

std::string describe(const Variables& variables) {
  std::string text;
  for (const auto& [name, value] : variables) {
    text += fmt::format("  {}={}\n", name, shell_quote(value));
  }
  return text;
}

/// Throws ConfigError for a variable of --env that sharing a GPU sets.
void check_not_shared(const Variables& chosen) {
  for (const auto& [name, value] : chosen) {
    if (is_set_for_shared_gpu(name)) {
      throw ConfigError(
          {.what = fmt::format("--env {}: --share_gpu itself sets it", name),
           .remedy = "leave one of them out"});
    }
  }
}

/// The secret that the user has chosen, by a variable of the ranks or of this
/// process; empty when there is none. Throws ConfigError.
std::string chosen_secret(const Variables& variables) {
  const char* const own = std::getenv(job_secret_variable);
  std::string secret = own == nullptr ? "" : own;
  for (const auto& [name, value] : variables) {
    if (name == job_secret_variable) {
      secret = value;
    }
  }
  check_secret(secret);
  return secret;
}

/// Starts the ranks of this node.
int launch_node(
    const LaunchFlags& flags,
    const JobRanks& world,
    const Machine& machine,
    const Logger& logger) {
  const auto program = choose_program(flags);
  const int node_rank = flags.world.node_rank.value_or(0);
  NodeOptions options;
  options.environment = chosen_environment(flags);
  options.share_gpu = flags.world.share_gpu;
  if (options.share_gpu) {
    check_not_shared(options.environment);
  }
  const auto is_chosen = [&](std::string_view name) {
    return std::getenv(name.data()) != nullptr ||
        std::ranges::any_of(options.environment, [&](const auto& variable) {
             return variable.first == name;
           });
  };
  options.omp_threads_chosen = is_chosen("OMP_NUM_THREADS");
  if (!is_chosen(keep_memory_variable)) {
    options.environment.emplace_back(keep_memory_variable, keep_memory_value);
  }
  if (!flags.core_list.empty()) {
    options.bind_cores = parse_core_list(flags.core_list);
  } else if (flags.bind_cores) {
    options.bind_cores = machine.cores;
  }
  if (flags.secret_on_stdin) {
    options.environment.emplace_back(job_secret_variable, secret_from_stdin());
  }
  // Launchers that people start on each node have no way to agree on a secret.
  const bool makes_secret = !flags.dry_run && world.hosts.size() == 1 &&
      chosen_secret(options.environment).empty();
  const Variables environment = options.environment;
  const int before = restarts_before();
  FreePort port; // the claim lasts as long as the job
  const auto plan = [&](int restarts) {
    options.environment = environment;
    if (makes_secret) {
      options.environment.emplace_back(job_secret_variable, new_job_secret());
    }
    options.restart_count = before + restarts;
    if (!world.master_port) {
      port = free_port(); // not that of the start before, still claimed
    }
    options.master_port = world.master_port.value_or(port.number);
    auto node = plan_node(world, node_rank, machine, program, options);
    if (!flags.job.is_node_launcher && !flags.dry_run) {
      check_program(node);
      logger.info(
          "starting {} of {} ranks here, meeting at {}:{}",
          node.ranks.size(),
          world.size(),
          world.master_addr,
          options.master_port);
      if (options.share_gpu && restarts == 0) {
        logger.warning(
            "--share_gpu: the ranks share one GPU to try out a layout; their "
            "speed says nothing about ranks with a GPU each");
      }
    }
    return node;
  };
  if (flags.dry_run) {
    for (const RankPlan& rank : plan(0).ranks) {
      fmt::print(
          "rank {}: {}\n{}",
          rank.rank,
          shell_join(rank.command),
          describe(rank.environment));
      if (!rank.cores.empty()) {
        fmt::print("  on cores {}\n", fmt::join(rank.cores, ","));
      }
    }
    return exit_ok;
  }
  return run_node(plan, flags.job, logger);
}

/// The environment for ranks on other hosts; later variables win.
Variables environment_for_hosts(const LaunchFlags& flags) {
  std::vector<std::string> own;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    own.emplace_back(*entry);
  }
  auto variables = exported_variables(own);
  const char* name = std::getenv("DS_ENV_FILE");
  const char* home = std::getenv("HOME");
  const std::filesystem::path file = name == nullptr ? ".deepspeed_env" : name;
  constexpr std::uint64_t largest = 1 << 20;
  for (const std::filesystem::path folder :
       {home == nullptr ? "" : home, "."}) {
    std::error_code absent;
    if (!folder.empty() &&
        std::filesystem::is_regular_file(folder / file, absent)) {
      const auto more = parse_environment_file(
          read_file(folder / file, largest),
          (folder / file).string());
      variables.insert(variables.end(), more.begin(), more.end());
    }
  }
  const auto chosen = chosen_environment(flags);
  variables.insert(variables.end(), chosen.begin(), chosen.end());
  return variables;
}

/// The flags for a node's own launcher.
std::vector<std::string> node_launcher_arguments(
    const LaunchFlags& flags,
    const JobRanks& world,
    std::size_t node) {
  std::vector<std::string> words = {
      "launch",
      "--node-launcher",
      "--secret-on-stdin",
      fmt::format("--world={}", world_seen_from(world.hosts, node)),
      fmt::format("--node_rank={}", node),
      fmt::format("--master_addr={}", world.master_addr),
      fmt::format(
          "--master_port={}",
          world.master_port.value_or(default_master_port)),
      fmt::format("--grace={}", flags.grace),
      fmt::format("--color={}", flags.job.colour ? "always" : "never")};
  if (flags.no_local_rank) {
    words.emplace_back("--no_local_rank");
  }
  if (flags.bind_cores) {
    words.emplace_back("--bind_cores_to_rank");
  }
  if (!flags.core_list.empty()) {
    words.push_back(fmt::format("--bind_core_list={}", flags.core_list));
  }
  if (!flags.job.log_dir.empty()) {
    words.push_back(fmt::format("--log-dir={}", flags.job.log_dir.string()));
  }
  words.insert(words.end(), flags.program.begin(), flags.program.end());
  return words;
}

/// Starts a launcher on every host and brings their output together.
int launch_hosts(
    const LaunchFlags& flags,
    const JobRanks& world,
    const Logger& logger) {
  auto environment = environment_for_hosts(flags);
  const std::string own_secret = chosen_secret(environment);
  // It goes to stdin instead: all users of a machine see its command lines.
  std::erase_if(environment, [](const auto& variable) {
    return variable.first == job_secret_variable;
  });
  const int before = restarts_before();
  const auto plan = [&](int restarts) {
    std::vector<HostCommand> commands;
    const std::string secret =
        own_secret.empty() ? new_job_secret() : own_secret;
    for (std::size_t node = 0; node < world.hosts.size(); ++node) {
      const auto& host = world.hosts[node].name;
      RemoteLauncher launcher{
          .executable = own_executable(),
          .directory = std::filesystem::current_path(),
          .environment = environment,
          .arguments = node_launcher_arguments(flags, world, node)};
      launcher.environment.emplace_back(
          "CAIRN_RESTART_COUNT",
          fmt::format("{}", before + restarts));
      const auto command = remote_command(launcher);
      commands.push_back(
          {host,
           is_this_machine(host)
               ? std::vector<std::string>{"/bin/sh", "-c", command}
               : over_ssh(flags.ssh_command, host, command),
           secret});
    }
    return commands;
  };
  if (flags.dry_run) {
    for (const HostCommand& command : plan(0)) {
      const auto& remote = command.command.back();
      fmt::print("{}: {}\n", command.host, remote);
      if (!is_this_machine(command.host)) {
        fmt::print(
            "  over {} {}\n",
            flags.ssh_command,
            shell_join({command.host, remote}));
      }
    }
    return exit_ok;
  }
  logger.info(
      "starting {} ranks on {} hosts, meeting at {}:{}",
      world.size(),
      world.hosts.size(),
      world.master_addr,
      world.master_port.value_or(default_master_port));
  return run_hosts(plan, flags.job, logger);
}

/// The words of the command line before the program, without those that ask
/// for tuning, and without restarts, which would repeat an experiment.
Arguments words_to_repeat(
    const Arguments& arguments,
    const Arguments& program) {
  Arguments words;
  const std::size_t end = arguments.size() - program.size();
  for (std::size_t i = 0; i < end; ++i) {
    std::string name = arguments[i].substr(0, arguments[i].find('='));
    std::ranges::replace(name, '-', '_');
    const bool left_out = name == "__autotuning" || name == "__max_restarts";
    if (!left_out) {
      words.push_back(arguments[i]);
    } else if (arguments[i].find('=') == std::string::npos) {
      ++i; // its value
    }
  }
  if (!words.empty() && words.back() == "--") {
    words.pop_back();
  }
  return words;
}

/// Runs `cairn tune` on what would have been started.
int tune_instead(
    const LaunchFlags& flags,
    const Arguments& arguments,
    int ranks) {
  const Arguments words = words_to_repeat(arguments, flags.program);
  Arguments all{
      std::string(by_launcher),
      std::to_string(ranks),
      flags.autotuning == Autotuning::run ? "run" : "tune",
      std::to_string(words.size())};
  all.insert(all.end(), words.begin(), words.end());
  all.insert(all.end(), flags.program.begin(), flags.program.end());
  const auto commands = all_commands();
  const auto tune = std::ranges::find(
      commands,
      std::string_view("tune"),
      [](const Command& command) { return command.name; });
  if (tune == commands.end()) {
    throw ConfigError(
        {.what = "this program has no `tune`", .where = "--autotuning"});
  }
  return tune->run(all);
}

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<long>(seconds * 1000));
}

bool use_color(Color choice) {
  const char* terminal = std::getenv("TERM");
  return choice == Color::always ||
      (choice == Color::automatic && ::isatty(1) == 1 && ::isatty(2) == 1 &&
       std::getenv("NO_COLOR") == nullptr && terminal != nullptr &&
       std::string_view(terminal) != "dumb");
}

} // namespace

int run_launch(const Arguments& arguments) {
  auto parsed = parse_launch_flags(arguments);
  if (!parsed) {
    return exit_ok;
  }
  LaunchFlags& flags = *parsed;
  if (flags.print_slurm || flags.print_kubernetes) {
    return print_for_scheduler(flags);
  }
  if (flags.no_ssh && !flags.world.node_rank) {
    throw ConfigError(
        {.what = "--no_ssh without --node_rank",
         .remedy = "say which node this is"});
  }
  flags.job.grace = milliseconds(flags.grace);
  if (is_command(flags.program.front()) ||
      is_this_program(flags.program.front())) {
    if (const auto timeout = timeout_of_command(flags.program)) {
      flags.job.patience = *timeout;
    }
  }
  flags.job.first_delay = milliseconds(flags.restart_delay);
  flags.job.colour = use_color(flags.color);
  const Logger logger;
  const auto machine = inspect_machine();
  const auto world = find_world(flags, machine);
  if (flags.autotuning != Autotuning::off) {
    return tune_instead(flags, arguments, world.size());
  }
  const bool all_here =
      world.hosts.size() == 1 && is_this_machine(world.hosts.front().name);
  if (flags.world.share_gpu && !all_here) {
    throw ConfigError(
        {.what = fmt::format(
             "--share_gpu, but host {} is not this machine",
             world.hosts.front().name),
         .remedy = "start the launcher on that host"});
  }
  return all_here || flags.world.node_rank
      ? launch_node(flags, world, machine, logger)
      : launch_hosts(flags, world, logger);
}

} // namespace cairn::cli
