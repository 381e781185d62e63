#include "launch/launched.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

// What the launcher does with ranks that a signal has stopped, as real
// processes.

namespace cairn::launch::fixtures::stopped_ranks_test {
namespace {

using std::chrono::seconds;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(StoppedRanks, AreNamed) {
  const TemporaryFolder folder;
  const std::string pid = (folder.path() / "pid").string();
  Command command(launch_words(
      shell(1, "echo $$ > '" + pid + "'; kill -STOP $$; echo on")));
  command.wait_for_error("was stopped by SIGSTOP");
  ::kill(std::stoi(read_text(pid)), SIGCONT);
  const Result result = command.finish();
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("[0] on"));
  EXPECT_THAT(result.err, ContainsRegex("rank 0 .* was stopped by SIGSTOP"));
}

TEST(StoppedRanks, EndWithTheOthers) {
  const auto result = launch(shell(
      2,
      "if [ $RANK = 0 ]; then kill -STOP $$; fi; exit 6",
      {"--grace=1000"}));
  EXPECT_EQ(result.code, 6);
}

TEST(StoppedRanks, EndTheJobInTime) {
  // Neither rank has met the other yet: only the launcher can see it.
  for (const char* rank : {"0", "1"}) {
    const std::string script = std::string("if [ $RANK = ") + rank +
        " ]; then kill -STOP $$; fi; "
        "exec sleep 1000";
    const auto result =
        launch(shell(2, script), {{"CAIRN_COLLECTIVE_TIMEOUT", "1"}});
    EXPECT_EQ(result.code, 1);
    EXPECT_LT(result.took, seconds(11));
    EXPECT_THAT(
        result.err,
        ContainsRegex(
            std::string("error: rank ") + rank +
            " \\(pid.* was stopped by SIGSTOP and has done nothing for"));
  }
}

TEST(StoppedRanks, AreBlamedForWhatOthersMiss) {
  const TemporaryFolder folder;
  const std::string stops = (folder.path() / "stops").string();
  const auto result = launch(shell(
      2,
      "if [ $RANK = 0 ]; then echo $$ > '" + stops +
          "'; kill -STOP $$; fi; "
          "while ! grep -qs '^State:.*stopped' "
          "/proc/$(cat 2> /dev/null '" +
          stops + "')/status; do sleep 0.01; done; " +
          hand_over("another", "rank 0 has not come") + "exit 3"));
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, ContainsRegex("rank 0 .*was stopped by SIGSTOP"));
  EXPECT_THAT(result.err, Not(HasSubstr("rank 1 (pid")));
}

/// Waits until a process is stopped or has ended.
void wait_until_still(pid_t pid) {
  while (true) {
    const std::string stat = read_text(fmt::format("/proc/{}/stat", pid));
    const auto bracket = stat.rfind(')');
    if (bracket == std::string::npos ||
        std::string_view("TZX").find(stat.at(bracket + 2)) !=
            std::string_view::npos) {
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// Pauses a job for longer than its timeout. Rank 2, if there is one, has ended
/// before. The launcher sees both stops at once, since it is stopped meanwhile.
Result pause_and_go_on(int ranks) {
  const TemporaryFolder folder;
  const std::string path = folder.path().string();
  Command command(
      launch_words(shell(
          ranks,
          "echo $$ > '" + path +
              "/pid'$RANK; echo ready $RANK; [ $RANK = 2 ] && exit 0; "
              "while ! [ -e '" +
              path + "/go' ]; do sleep 0.01; done; echo rank $RANK is on")),
      {{"CAIRN_COLLECTIVE_TIMEOUT", "2"}});
  std::vector<pid_t> pids;
  for (int rank = 0; rank < ranks; ++rank) {
    command.wait_for(fmt::format("ready {}", rank));
    pids.push_back(std::stoi(read_text(fmt::format("{}/pid{}", path, rank))));
  }
  command.send(SIGSTOP);
  wait_until_still(command.pid());
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank < 2) {
      ::kill(pids.at(rank), SIGSTOP);
    }
    wait_until_still(pids.at(rank));
  }
  command.send(SIGCONT);
  command.wait_for_error("rank 0 (pid");
  command.wait_for_error("rank 1 (pid");
  // Longer than the timeout: nothing happens in this time.
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  folder.write("go", "");
  ::kill(pids[0], SIGCONT);
  ::kill(pids[1], SIGCONT);
  return command.finish();
}

TEST(StoppedRanks, AreLeftAloneWhenAllAre) {
  // Every rank is stopped: somebody wants it, and nobody waits for them.
  const Result result = pause_and_go_on(2);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("rank 0 is on"));
  EXPECT_THAT(result.out, HasSubstr("rank 1 is on"));
}

TEST(StoppedRanks, AreLeftAloneWhenTheOthersHaveFinished) {
  const Result result = pause_and_go_on(3);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("rank 1 is on"));
}

} // namespace
} // namespace cairn::launch::fixtures::stopped_ranks_test
