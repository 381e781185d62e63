#include "launch/internal/job.h"

#include "base/internal/terminal.h"
#include "launch/supervise/child_process.h"
#include "launch/supervise/exit_status.h"
#include "launch/supervise/node_protocol.h"
#include "launch/supervise/output_stream.h"
#include "launch/supervise/own_environment.h"
#include "launch/supervise/signal_watch.h"
#include "launch/supervise/supervision.h"

#include <cairn/base/error.h>

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <system_error>

namespace cairn::launch {
namespace {

std::string this_host() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

/// Opens 0, 1 and 2 if they are closed. Otherwise the first files that we open
/// would take their place.
void open_standard_descriptors() {
  int fd = 0;
  do {
    fd = ::open("/dev/null", O_RDWR);
  } while (fd >= 0 && fd <= 2);
  ::close(fd);
}

/// Our terminal, if a rank can draw on it. Ranks run in the background, where
/// `stty tostop` would stop them for writing.
UniqueFd terminal_to_lend(const JobOptions& options) {
  termios settings{};
  if (options.is_node_launcher || !can_redraw(1) ||
      ::tcgetattr(1, &settings) != 0 || (settings.c_lflag & TOSTOP) != 0) {
    return {};
  }
  return UniqueFd(::fcntl(1, F_DUPFD_CLOEXEC, 3));
}

/// Prints why the job failed, as its last message.
void report(
    const Failure& failure,
    const JobOptions& options,
    const Logger& logger) {
  OutputStream error(2, "stderr", logger);
  if (options.is_node_launcher) {
    // The failure itself was sent when it happened.
    for (const std::string& line : failure.last_lines) {
      error.write(encode({.kind = NodeRecord::Kind::last_line, .text = line}));
    }
    return;
  }
  logger.error(
      "{}; {}",
      failure.what,
      failure.last_lines.empty() ? "it wrote nothing" : "its last lines:");
  for (const std::string& line : failure.last_lines) {
    error.write(line + "\n");
  }
}

/// Waits for `delay`, or until a stop signal comes, which it returns.
std::optional<int> pause(
    std::chrono::milliseconds delay,
    SignalWatch& signals) {
  const auto end = std::chrono::steady_clock::now() + delay;
  while (true) {
    for (const int signal : signals.take()) {
      if (signal != SIGCHLD) {
        return signal;
      }
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      return std::nullopt;
    }
    pollfd watched{signals.fd(), POLLIN, 0};
    ::poll(&watched, 1, static_cast<int>(left.count()));
  }
}

int run(
    const std::function<std::vector<ChildSpec>(int restarts)>& plan,
    const JobOptions& options,
    const Logger& logger,
    bool lends_terminal = false) {
  const SupervisionOptions supervision{
      .grace = options.grace,
      .patience = options.patience,
      .colour = options.colour,
      .is_node_launcher = options.is_node_launcher,
      .lends_terminal = lends_terminal};
  open_standard_descriptors();
  SignalWatch signals;
  auto delay = options.first_delay;
  for (int restarts = 0;; ++restarts) {
    const auto children = plan(restarts);
    const auto outcome = supervise(children, supervision, signals, logger);
    if (outcome.failure) {
      report(*outcome.failure, options, logger);
    }
    if (!outcome.failure || restarts == options.max_restarts) {
      return outcome.exit_code();
    }
    if (outcome.failure->before_start) {
      logger.info("not restarting: the program cannot be run");
      return outcome.exit_code();
    }
    logger.warning(
        "restart {} of {} in {:.1f} s",
        restarts + 1,
        options.max_restarts,
        std::chrono::duration<double>(delay).count());
    if (const auto signal = pause(delay, signals)) {
      logger.info("{}: not restarting", signal_name(*signal));
      return 128 + *signal;
    }
    delay = std::min(2 * delay, options.longest_delay);
  }
}

void make_log_dir(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw ConfigError(
        {.what = "the folder for the logs cannot be made",
         .where = folder.string(),
         .values = error.message(),
         .remedy = "give another one with --log-dir"});
  }
}

} // namespace

void check_program(const NodePlan& plan) {
  for (const RankPlan& rank : plan.ranks) {
    find_program(rank.command.at(0));
  }
}

int run_node(
    const std::function<NodePlan(int restarts)>& plan,
    const JobOptions& options,
    const Logger& logger) {
  if (!options.log_dir.empty()) {
    make_log_dir(options.log_dir);
  }
  const auto host = this_host();
  const UniqueFd terminal = terminal_to_lend(options);
  return run(
      [&](int restarts) {
        const auto node = plan(restarts);
        std::vector<ChildSpec> children;
        for (const RankPlan& rank : node.ranks) {
          ChildSpec child;
          child.name = fmt::format("rank {}", rank.rank);
          child.host = options.is_node_launcher ? node.host : host;
          child.label = options.is_node_launcher
              ? fmt::format("{} {}", node.host, rank.rank)
              : fmt::format("{}", rank.rank);
          child.colour = rank.rank;
          Variables environment = rank.environment;
          if (terminal && rank.rank == 0) {
            environment.emplace_back(
                lent_terminal_variable,
                to_variable(
                    {.fd = terminal.get(),
                     .logged = !options.log_dir.empty()}));
            child.process.terminal = terminal.get();
          }
          child.process.command = rank.command;
          child.process.environment = own_environment(environment);
          child.process.cores = rank.cores;
          if (!options.log_dir.empty()) {
            child.log_file =
                options.log_dir / fmt::format("rank_{}.log", rank.rank);
            child.append_to_log = node.restart_count > 0;
          }
          children.push_back(std::move(child));
        }
        return children;
      },
      options,
      logger,
      static_cast<bool>(terminal));
}

int run_hosts(
    const std::function<std::vector<HostCommand>(int restarts)>& plan,
    const JobOptions& options,
    const Logger& logger) {
  return run(
      [&](int restarts) {
        std::vector<ChildSpec> children;
        for (HostCommand& host : plan(restarts)) {
          ChildSpec child;
          child.kind = ChildSpec::Kind::launcher;
          child.name = fmt::format("the launcher for {}", host.host);
          child.host = host.host;
          child.label = host.host;
          child.colour = static_cast<int>(children.size());
          child.process = {
              .command = std::move(host.command),
              .environment = own_environment({}),
              .input = StandardInput::pipe};
          child.first_line = std::move(host.secret);
          children.push_back(std::move(child));
        }
        return children;
      },
      options,
      logger);
}

} // namespace cairn::launch
