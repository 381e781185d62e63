#include "launch/internal/free_port.h"
#include "launch/internal/job.h"
#include "launch/launched.h"
#include "launch/supervise/suspension.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

// The library called from a foreign program: this one.

namespace cairn::launch::supervision_test {
namespace {

NodePlan one_rank(const std::string& script) {
  NodePlan plan;
  plan.host = "here";
  plan.ranks.push_back({.command = {"sh", "-c", script}});
  return plan;
}

int run_here(const std::string& script) {
  return run_node(
      [&](int) { return one_rank(script); },
      {},
      Logger({.least = LogLevel::error}));
}

TEST(RunNode, SparesOtherChildren) {
  const pid_t other = ::fork();
  if (other == 0) {
    ::execlp("sleep", "sleep", "1000", nullptr);
    ::_exit(1);
  }
  EXPECT_EQ(run_here("true"), 0);
  EXPECT_EQ(::kill(other, 0), 0);
  EXPECT_EQ(::waitpid(other, nullptr, WNOHANG), 0) << "it has ended";
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
}

TEST(RunNode, PutsSignalsBack) {
  sigset_t before;
  sigset_t after;
  ::sigprocmask(SIG_BLOCK, nullptr, &before);
  EXPECT_EQ(run_here("exit 3"), 3);
  ::sigprocmask(SIG_BLOCK, nullptr, &after);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) {
    EXPECT_EQ(sigismember(&before, signal), sigismember(&after, signal));
  }
  struct sigaction action {};
  ::sigaction(SIGPIPE, nullptr, &action);
  EXPECT_EQ(action.sa_handler, SIG_DFL);
  int subreaper = -1;
  ::prctl(PR_GET_CHILD_SUBREAPER, &subreaper);
  EXPECT_EQ(subreaper, 0);
  EXPECT_LT(::waitpid(-1, nullptr, WNOHANG), 0) << "a child is left";
}

TEST(RunNode, StopsTheFirstWhenTheSecondCannotBeStarted) {
  auto plan = one_rank("sleep 1000");
  plan.ranks.push_back({.rank = 1, .command = {"/no/such/program"}});
  EXPECT_THROW(run_node([&](int) { return plan; }, {}, Logger()), ConfigError);
  EXPECT_LT(::waitpid(-1, nullptr, WNOHANG), 0) << "a child is left";
}

TEST(RunNode, WaitsTwiceAsLongEachTime) {
  std::vector<std::chrono::steady_clock::time_point> starts;
  JobOptions options;
  options.max_restarts = 4;
  options.first_delay = std::chrono::milliseconds(20);
  options.longest_delay = std::chrono::milliseconds(50);
  run_node(
      [&](int) {
        starts.push_back(std::chrono::steady_clock::now());
        return one_rank("exit 1");
      },
      options,
      Logger());
  ASSERT_EQ(starts.size(), 5U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_GE(
        starts[i + 1] - starts[i],
        std::chrono::milliseconds(std::array{20, 40, 50, 50}.at(i)));
  }
}

/// Ports that another process chooses: so many that one of `claimed` would be
/// among them, were it not for the claims.
bool another_process_chooses(const std::set<int>& claimed) {
  const pid_t other = ::fork();
  if (other == 0) {
    std::vector<FreePort> ports;
    int code = 0;
    for (int i = 0; i < 400; ++i) {
      ports.push_back(free_port());
      code |= static_cast<int>(claimed.contains(ports.back().number));
    }
    ::_exit(code);
  }
  int status = -1;
  ::waitpid(other, &status, 0);
  return status != 0;
}

TEST(Suspension, MovesADeadlineBehindItself) {
  using std::chrono::milliseconds;
  using std::chrono::seconds;
  // A stop 4 s ago may last 6 s longer, and the launcher sleeps until then. It
  // is suspended for an hour: afterwards the 6 s are still there.
  EXPECT_EQ(suspended_time(seconds(3600), seconds(6)), seconds(3600));
  // Woken in time, or a little late by load, it was not suspended.
  EXPECT_EQ(suspended_time(seconds(6), seconds(6)), seconds(0));
  EXPECT_EQ(suspended_time(milliseconds(6900), seconds(6)), seconds(0));
  EXPECT_EQ(suspended_time(seconds(2), seconds(6)), seconds(0));
  EXPECT_EQ(suspended_time(seconds(3600), milliseconds(-1)), seconds(0));
}

TEST(FreePort, IsNobodyElsesWhileItIsClaimed) {
  std::vector<FreePort> ports;
  std::set<int> numbers;
  for (int i = 0; i < 400; ++i) {
    ports.push_back(free_port());
    numbers.insert(ports.back().number);
  }
  EXPECT_EQ(numbers.size(), ports.size());
  EXPECT_FALSE(another_process_chooses(numbers));
}

TEST(FreePort, IsBelowThoseOfServicesAndConnections) {
  for (int i = 0; i < 50; ++i) {
    const int port = free_port().number;
    EXPECT_GE(port, 20000);
    EXPECT_LT(port, 30000);
  }
}

TEST(FreePort, CanBeListenedOn) {
  const auto chosen = free_port();
  const int port = chosen.number;
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  EXPECT_EQ(
      ::bind(
          fd.get(),
          reinterpret_cast<const sockaddr*>(&address),
          sizeof address),
      0);
  EXPECT_EQ(::listen(fd.get(), 1), 0);
}

} // namespace
} // namespace cairn::launch::supervision_test
