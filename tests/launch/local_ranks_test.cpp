#include "launch/launched.h"
#include "support/own_terminal.h"

#include <cairn/base/file.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// The launcher with ranks on this machine, as real processes.

namespace cairn::launch::fixtures::local_ranks_test {
namespace {

using std::chrono::seconds;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

TEST(LocalRanks, HaveTheirPlaceInTheEnvironment) {
  const auto result = launch(shell(
      3,
      "echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $NODE_RANK "
      "$GROUP_RANK $MASTER_ADDR $CAIRN_RESTART_COUNT"));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(
      lines_after(result.out, "["),
      UnorderedElementsAre(
          "0] 0 0 3 3 0 0 127.0.0.1 0",
          "1] 1 1 3 3 0 0 127.0.0.1 0",
          "2] 2 2 3 3 0 0 127.0.0.1 0"));
}

TEST(LocalRanks, MeetAtOneFreePort) {
  std::set<std::string> ports;
  for (int i = 0; i < 3; ++i) {
    const auto result = launch(shell(2, "echo $MASTER_PORT"));
    const auto first = lines_after(result.out, "[0] ");
    ASSERT_EQ(first, lines_after(result.out, "[1] "));
    ASSERT_EQ(first.size(), 1U);
    EXPECT_GT(std::stoi(first[0]), 1023);
    ports.insert(first[0]);
  }
  EXPECT_GT(ports.size(), 1U) << "the port is not chosen but fixed";
  const auto result =
      launch(shell(1, "echo $MASTER_PORT", {"--master_port", "6000"}));
  EXPECT_THAT(lines_after(result.out, "[0] "), ElementsAre("6000"));
}

TEST(LocalRanks, ShareASecretThatNobodyElseHas) {
  const std::string tell = "echo $CAIRN_JOB_SECRET";
  std::set<std::string> secrets;
  for (int i = 0; i < 2; ++i) {
    const auto result = launch(shell(2, tell));
    const auto first = lines_after(result.out, "[0] ");
    ASSERT_EQ(first.size(), 1U) << result.err;
    EXPECT_THAT(first[0], MatchesRegex("[0-9a-f]{64}"));
    EXPECT_EQ(first, lines_after(result.out, "[1] "));
    secrets.insert(first[0]);
  }
  EXPECT_EQ(secrets.size(), 2U) << "the secret is not made anew";
  EXPECT_EQ(
      launch(shell(1, tell), {{"CAIRN_JOB_SECRET", "mine"}}).out,
      "[0] mine\n");
  EXPECT_THAT(
      launch(shell(1, tell), {{"CAIRN_JOB_SECRET", ""}}).out,
      MatchesRegex("\\[0\\] [0-9a-f]{64}\n"));
  for (const auto& wrong :
       {std::string("two\nlines"), std::string(1025, 'x')}) {
    const auto result = launch(shell(1, tell), {{"CAIRN_JOB_SECRET", wrong}});
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.err, HasSubstr("CAIRN_JOB_SECRET"));
  }
  EXPECT_THAT(
      launch(shell(1, tell, {"--dry-run"})).out,
      Not(HasSubstr("SECRET=")));
}

TEST(LocalRanks, ShareTheThreads) {
  const auto threads = [](int ranks, const Words& flags, auto environment) {
    const auto result =
        launch(shell(ranks, "echo $OMP_NUM_THREADS", flags), environment);
    return std::stoi(lines_after(result.out, "[0] ").at(0));
  };
  using Environment = std::vector<std::pair<std::string, std::string>>;
  const int alone = threads(1, {}, Environment{});
  EXPECT_GE(alone, 1);
  EXPECT_EQ(threads(2, {}, Environment{}), std::max(1, alone / 2));
  EXPECT_EQ(threads(2, {}, Environment{{"OMP_NUM_THREADS", "7"}}), 7);
  EXPECT_EQ(threads(2, {"--env", "OMP_NUM_THREADS=5"}, Environment{}), 5);
}

TEST(LocalRanks, KeepTheMemoryTheyFree) {
  const auto delay = [](const Words& flags, auto environment) {
    const auto result =
        launch(shell(1, "echo $MIMALLOC_PURGE_DELAY", flags), environment);
    return lines_after(result.out, "[0] ").at(0);
  };
  using Environment = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(delay({}, Environment{}), "-1");
  EXPECT_EQ(delay({}, Environment{{"MIMALLOC_PURGE_DELAY", "3"}}), "3");
  EXPECT_EQ(delay({"--env", "MIMALLOC_PURGE_DELAY=5"}, Environment{}), "5");
}

TEST(LocalRanks, AreBoundToCoresOfTheirOwn) {
  if (::sysconf(_SC_NPROCESSORS_ONLN) < 2) {
    GTEST_SKIP() << "one core cannot be shared out";
  }
  const auto result = launch(shell(
      2,
      "grep Cpus_allowed_list /proc/self/status; echo $OMP_NUM_THREADS",
      {"--bind_cores_to_rank"}));
  ASSERT_EQ(result.code, 0) << result.err;
  const auto first = lines_after(result.out, "[0] ");
  const auto second = lines_after(result.out, "[1] ");
  ASSERT_EQ(first.size(), 2U);
  ASSERT_EQ(second.size(), 2U);
  EXPECT_NE(first[0], second[0]);
}

TEST(LocalRanks, ToldTheirPlaceAsDeepSpeedDoes) {
  EXPECT_THAT(
      lines_after(
          launch({"--num_gpus", "2", "echo", "--flag", "--help"}).out,
          "["),
      UnorderedElementsAre(
          "0] --flag --help --local_rank=0",
          "1] --flag --help --local_rank=1"));
}

TEST(LocalRanks, RunCairnCommands) {
  const auto result = launch({"--num_gpus=2", "tell", "gpt", "--a b"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(
      lines_after(result.out, "["),
      UnorderedElementsAre(
          "0] rank 0 of 2 <gpt> <--a b>",
          "1] rank 1 of 2 <gpt> <--a b>"));
}

TEST(LocalRanks, ReadNothing) {
  const auto result = launch(shell(1, "cat; echo end"));
  EXPECT_EQ(result.out, "[0] end\n");
}

TEST(LocalRanks, WriteWholeLinesToTheStreamTheyChose) {
  // Four ranks write lines far longer than a pipe holds at once.
  const auto result = launch(shell(
      4,
      "for i in 1 2 3 4 5; do head -c 100000 /dev/zero | tr '\\0' $RANK; "
      "echo; done; echo bad >&2"));
  ASSERT_EQ(result.code, 0);
  for (const char rank : {'0', '1', '2', '3'}) {
    const auto start = std::string("[") + rank + "] ";
    const auto lines = lines_after(result.out, start);
    ASSERT_EQ(lines.size(), 5U);
    for (const std::string& line : lines) {
      EXPECT_EQ(line.size(), 100000U);
      EXPECT_EQ(line.find_first_not_of(rank), std::string::npos);
    }
    EXPECT_THAT(lines_after(result.err, start), ElementsAre("bad"));
  }
}

TEST(LocalRanks, MayWriteAnyBytes) {
  const auto result =
      launch(shell(1, "printf '\\000\\377\\033x\\n'; printf unfinished"));
  using namespace std::string_literals;
  EXPECT_EQ(result.out, "[0] \0\377\033x\n[0] unfinished\n"s);
}

TEST(LocalRanks, PromptsAreSeenBeforeTheirLineEnds) {
  Command command(launch_words(shell(1, "printf 'loading...'; sleep 100")));
  command.wait_for("[0] loading...\n");
  command.send(SIGTERM);
  EXPECT_EQ(command.finish().code, 128 + SIGTERM);
}

TEST(LocalRanks, AreLoggedUnlabelled) {
  const TemporaryFolder folder;
  const auto logs = folder.path() / "some" / "logs";
  const auto result = launch(shell(
      2,
      "echo out $RANK; echo err $RANK >&2; printf end",
      {"--log-dir", logs.string()}));
  EXPECT_EQ(result.code, 0) << result.err;
  const auto log = read_text(logs / "rank_1.log");
  EXPECT_THAT(lines_after(log, "out "), ElementsAre("1"));
  EXPECT_THAT(lines_after(log, "err "), ElementsAre("1"));
  EXPECT_THAT(lines_after(log, "end"), ElementsAre(""));
  EXPECT_THAT(read_text(logs / "rank_0.log"), Not(HasSubstr("[")));
}

/// The screen of `cairn launch` on a terminal.
std::string launched_on_a_terminal(Words words) {
  const testing::OwnTerminal terminal;
  words = launch_words(std::move(words));
  std::vector<char*> arguments;
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  ::setenv("TERM", "xterm", 1);
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1); // as on a machine without a GPU
  const pid_t pid = ::fork();
  if (pid == 0) {
    for (const int fd : {0, 1, 2}) {
      ::dup2(terminal.fd(), fd);
    }
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  int status = -1;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
  return terminal.shown();
}

TEST(LocalRanks, TheFirstMayDrawOnTheTerminal) {
  const TemporaryFolder folder;
  const std::string draw = "echo lent: $CAIRN_TERMINAL; [ $RANK = 1 ] || "
                           "echo drawing > /proc/self/fd/${CAIRN_TERMINAL%% *}";
  const std::string shown = launched_on_a_terminal(
      shell(2, draw, {"--color=never", "--log-dir", folder.path().string()}));
  EXPECT_THAT(shown, HasSubstr("drawing\r\n"));
  EXPECT_THAT(shown, Not(HasSubstr("] drawing")));
  EXPECT_THAT(shown, ContainsRegex("\\[0\\] lent: [0-9]+ logged\x1b\\[K"));
  EXPECT_THAT(shown, HasSubstr("[1] lent:\x1b[K"));
  EXPECT_THAT(
      read_text(folder.path() / "rank_0.log"),
      ContainsRegex("^lent: [0-9]+ logged\n$"));
  EXPECT_THAT(
      launched_on_a_terminal(shell(1, "echo lent: $CAIRN_TERMINAL.")),
      ContainsRegex("lent: [0-9]+\\."));
  EXPECT_EQ(
      launch(shell(1, "echo lent: $CAIRN_TERMINAL"), {{"CAIRN_TERMINAL", "2"}})
          .out,
      "[0] lent:\n")
      << "there is no terminal here";
}

TEST(LocalRanks, OneThatIsKilledStopsAllAndIsNamedLast) {
  Command command(launch_words(shell(
      4,
      "echo rank $RANK is pid $$; [ $RANK = 2 ] && echo last words; sleep 100",
      {"--grace", "60"})));
  command.wait_for("last words");
  for (const char* rank : {"0", "1", "3"}) {
    command.wait_for(std::string("rank ") + rank + " is");
  }
  const auto victim =
      std::stoi(lines_after(command.out(), "[2] rank 2 is pid ").at(0));
  ASSERT_EQ(::kill(victim, SIGKILL), 0);
  const auto killed = std::chrono::steady_clock::now();
  const auto result = command.finish();
  EXPECT_LT(std::chrono::steady_clock::now() - killed, seconds(10));
  EXPECT_EQ(result.code, 137);
  EXPECT_TRUE(command.living().empty());
  const auto report = result.err.rfind("error: ");
  ASSERT_NE(report, std::string::npos);
  EXPECT_THAT(
      result.err.substr(report),
      ::testing::MatchesRegex(
          "error: rank 2 \\(pid " + std::to_string(victim) +
          ", host [^)]*\\) was killed by SIGKILL after [0-9.]+ s; its last "
          "lines:\n\\[2\\] rank 2 is pid " +
          std::to_string(victim) + "\n\\[2\\] last words\n"));
}

TEST(LocalRanks, GiveTheirExitCode) {
  const auto result = launch(shell(2, "[ $RANK = 1 ] && exit 43; sleep 100"));
  EXPECT_EQ(result.code, 43);
  EXPECT_THAT(result.err, HasSubstr("exited with code 43"));
  EXPECT_THAT(result.err, EndsWith("; it wrote nothing\n"));
}

TEST(LocalRanks, MayEndWellBeforeTheOthers) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "first_is_done";
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  const auto result = launch(shell(
      2,
      "if [ $RANK = 0 ]; then echo > '" + file.string() +
          "'; exit 0; fi; "
          "read x < '" +
          file.string() + "'; echo second"));
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(lines_after(result.out, "[1] "), ElementsAre("second"));
}

TEST(LocalRanks, OnlyTheFirstFailureIsReported) {
  const TemporaryFolder folder;
  const std::string ready = (folder.path() / "ready_").string();
  for (const char* rank : {"0", "2"}) {
    ASSERT_EQ(::mkfifo((ready + rank).c_str(), 0600), 0);
  }
  // The second rank fails when the others are ready for a signal.
  const auto result = launch(shell(
      3,
      "trap 'echo stopped; exit 9' TERM; "
      "if [ $RANK = 1 ]; then read x < '" +
          ready + "0'; read x < '" + ready +
          "2'; exit 5; fi; "
          "echo > '" +
          ready + "'$RANK; while :; do sleep 0.01; done"));
  EXPECT_EQ(result.code, 5);
  EXPECT_THAT(result.out, HasSubstr("[0] stopped"));
  EXPECT_THAT(result.err, HasSubstr("rank 1 (pid"));
  EXPECT_THAT(result.err, Not(HasSubstr("code 9")));
}

TEST(LocalRanks, TheOneThatFailsByItselfIsBlamed) {
  const TemporaryFolder folder;
  const std::string told = (folder.path() / "told").string();
  ASSERT_EQ(::mkfifo(told.c_str(), 0600), 0);
  // Rank 0 has failed and is on its way out for long, and rank 1 ends before.
  const auto result = launch(shell(
      2,
      "if [ $RANK = 0 ]; then echo 'the disk is full' >&2; " +
          hand_over("own", "the disk is full") + "echo > '" + told +
          "'; sleep 1000; fi; read x < '" + told + "'; " +
          hand_over("another", "rank 0 has not come") + "exit 3",
      {"--grace=0.1"}));
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, Not(HasSubstr("rank 1 (pid")));
  EXPECT_THAT(result.err, ContainsRegex("rank 0 \\(pid.*has failed after"));
  EXPECT_THAT(result.err, EndsWith("[0] the disk is full\n"));
}

TEST(LocalRanks, TheOneThatIsBlamedGivesItsExitCode) {
  const TemporaryFolder folder;
  const std::string told = (folder.path() / "told").string();
  ASSERT_EQ(::mkfifo(told.c_str(), 0600), 0);
  // Rank 1 ends first, and rank 0 is blamed while it runs on.
  const auto result = launch(shell(
      2,
      "if [ $RANK = 0 ]; then " + hand_over("own", "the disk is full") +
          "echo > '" + told + "'; sleep 0.5; exit 4; fi; read x < '" + told +
          "'; " + hand_over("another", "rank 0 has not come") + "exit 3"));
  EXPECT_EQ(result.code, 4);
  EXPECT_THAT(
      result.err,
      ContainsRegex("rank 0 \\(pid.*exited with code 4 after"));
}

TEST(LocalRanks, TheCauseMayComeAfterItsConsequence) {
  const TemporaryFolder folder;
  const std::string ended = (folder.path() / "ended").string();
  ASSERT_EQ(::mkfifo(ended.c_str(), 0600), 0);
  // A program that hands over nothing ends after the rank that misses it.
  const auto result = launch(shell(
      2,
      "if [ $RANK = 0 ]; then read x < '" + ended +
          "'; sleep 0.1; exit 7; fi; " + hand_over("another", "gone") +
          "echo > '" + ended + "'; exit 3"));
  EXPECT_EQ(result.code, 7);
  EXPECT_THAT(result.err, HasSubstr("rank 0 (pid"));
  EXPECT_THAT(result.err, Not(HasSubstr("rank 1 (pid")));
}

TEST(LocalRanks, OnlyTheLastTwentyLinesAreShown) {
  const auto result =
      launch(shell(1, "for i in $(seq 1 30); do echo line $i; done; exit 1"));
  const auto shown = lines_after(result.err, "[0] ");
  ASSERT_EQ(shown.size(), 20U);
  EXPECT_EQ(shown.front(), "line 11");
  EXPECT_EQ(shown.back(), "line 30");
}

TEST(LocalRanks, ThatIgnoreTheSignalAreKilledAfterTheGrace) {
  const auto result = launch(shell(
      2,
      "trap '' TERM; if [ $RANK = 0 ]; then echo ready; sleep 100; fi; "
      "sleep 0.2; exit 3",
      {"--grace", "0.3"}));
  EXPECT_EQ(result.code, 3);
  EXPECT_LT(result.took, seconds(5));
  EXPECT_GE(result.took, std::chrono::milliseconds(300));
}

TEST(LocalRanks, LeaveNoWorkerInASessionOfItsOwn) {
  // A worker that inherits everything, and one that hides its environment and
  // its parents; `launch` checks for marked processes, the file for the other.
  const TemporaryFolder folder;
  const auto file = folder.path() / "hidden";
  const auto result = launch(shell(
      2,
      "setsid sleep 1000 & "
      "env -i setsid sh -c 'echo $$ > \"$1\"; exec sleep 1000' sh '" +
          file.string() +
          "'$RANK & "
          "for rank in 0 1; do while ! [ -s '" +
          file.string() +
          "'$rank ]; do sleep 0.01; done; done; "
          "exit $RANK"));
  EXPECT_EQ(result.code, 1);
  for (const char* rank : {"0", "1"}) {
    const auto pid = std::stoi(read_text(file.string() + rank));
    EXPECT_NE(::kill(pid, 0), 0) << "worker of rank " << rank << " is alive";
  }
}

TEST(LocalRanks, LeaveNoWorkerWhenAllEndWell) {
  const auto result = launch(shell(1, "setsid sleep 1000 & exit 0"));
  EXPECT_EQ(result.code, 0);
}

TEST(LocalRanks, GetTheSignalThatTheLauncherGets) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    Command command(launch_words(shell(
        2,
        "for s in INT TERM HUP; do trap \"echo got $s; exit 0\" $s; done; "
        "echo ready $RANK; while :; do sleep 0.01; done")));
    command.wait_for("ready 0");
    command.wait_for("ready 1");
    command.send(signal);
    const auto result = command.finish();
    EXPECT_EQ(result.code, 128 + signal);
    const auto name = std::string("got ") + ::sigabbrev_np(signal);
    EXPECT_THAT(
        lines_after(result.out, "[0] got"),
        ElementsAre(name.substr(3)));
    EXPECT_THAT(
        lines_after(result.out, "[1] got"),
        ElementsAre(name.substr(3)));
    EXPECT_TRUE(command.living().empty());
  }
}

TEST(LocalRanks, AreKilledAtOnceWhenAskedTwice) {
  Command command(launch_words(shell(
      1,
      "trap 'echo no' INT; echo ready; while :; do sleep 0.01; done",
      {"--grace=1000"})));
  command.wait_for("ready");
  command.send(SIGINT);
  command.wait_for("no");
  command.send(SIGINT);
  EXPECT_EQ(command.finish().code, 130);
  EXPECT_TRUE(command.living().empty());
}

TEST(LocalRanks, KeepOnUnderNohup) {
  auto words = launch_words(
      shell(1, "echo ready; while ! [ -e \"$DONE\" ]; do sleep 0.01; done"));
  words.insert(words.begin(), "nohup");
  const TemporaryFolder folder;
  const auto file = folder.path() / "done";
  Command command(words, {{"DONE", file.string()}});
  command.wait_for("ready");
  command.send(SIGHUP);
  folder.write("done", "");
  EXPECT_EQ(command.finish().code, 0);
}

TEST(LocalRanks, DieWithTheLauncher) {
  Command command(launch_words(shell(
      2,
      "trap '' TERM HUP; sleep 1000 & setsid sleep 1000 & echo ready $RANK; "
      "sleep 1000")));
  command.wait_for("ready 0");
  command.wait_for("ready 1");
  command.send(SIGKILL);
  EXPECT_EQ(command.finish().code, 137);
  command.expect_nothing_left();
}

TEST(LocalRanks, DieWithALauncherThatIsARankItself) {
  Command command(launch_words(
      {"--num_gpus=1",
       "--no_local_rank",
       LAUNCH_PROGRAM,
       "launch",
       "--num_gpus=2",
       "--no_local_rank",
       "sh",
       "-c",
       "setsid sleep 1000 & echo ready $RANK; sleep 1000"}));
  command.wait_for("ready 0");
  command.wait_for("ready 1");
  command.send(SIGKILL);
  EXPECT_EQ(command.finish().code, 137);
  command.expect_nothing_left();
}

TEST(LocalRanks, HiddenWorkersDieWithTheLauncher) {
  // Workers that have cleared their environment and left their session, and
  // some that have lost their parents as well: only their limit on file locks
  // tells whose they are.
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "worker").string();
  const std::string worker = folder.write_script(
      "worker",
      "#!/bin/sh\necho $$ > \"$1.new\"; mv \"$1.new\" \"$1\"; "
      "exec sleep 1000\n");
  Command command(launch_words(shell(
      2,
      "env -i setsid '" + worker + "' '" + file +
          "'$RANK & env -i setsid sh -c '\"$1\" \"$2\" & exit 0' sh '" +
          worker + "' '" + file + "'_$RANK; for file in '" + file + "'$RANK '" +
          file +
          "'_$RANK; do while ! [ -e \"$file\" ]; do sleep 0.01; done; done; "
          "echo ready $RANK; sleep 1000")));
  command.wait_for("ready 0");
  command.wait_for("ready 1");
  std::vector<UniqueFd> workers;
  for (const char* name : {"0", "1", "_0", "_1"}) {
    workers.emplace_back(static_cast<int>(
        ::syscall(SYS_pidfd_open, std::stoi(read_text(file + name)), 0)));
    ASSERT_TRUE(workers.back());
  }
  command.send(SIGKILL);
  EXPECT_EQ(command.finish().code, 137);
  for (const UniqueFd& fd : workers) {
    pollfd ended{fd.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&ended, 1, 10000), 1) << "a worker outlives the launcher";
  }
}

TEST(LocalRanks, StopWhenNobodyReadsAnyMore) {
  const auto result = run(
      {"bash",
       "-c",
       "\"$@\" | head -n 1; exit ${PIPESTATUS[0]}",
       "bash",
       LAUNCH_PROGRAM,
       "launch",
       "--num_gpus=2",
       "--no_local_rank",
       "sh",
       "-c",
       "while echo on; do :; done"});
  EXPECT_EQ(result.code, 128 + SIGPIPE);
}

TEST(LocalRanks, StopWhileTheReaderStalls) {
  Command command(launch_words(
      shell(2, "trap '' TERM; echo ready >&2; exec yes", {"--grace=0.2"})));
  command.wait_for_error("ready");
  command.wait_for("y\n");
  command.send(SIGTERM); // and read nothing until it has ended
  const UniqueFd process(
      static_cast<int>(::syscall(SYS_pidfd_open, command.pid(), 0)));
  pollfd ended{process.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&ended, 1, 10000), 1) << "it waits for its reader";
  EXPECT_EQ(command.finish().code, 143);
  EXPECT_TRUE(command.living().empty());
}

TEST(LocalRanks, AreSupervisedWhileTheReaderStalls) {
  const TemporaryFolder folder;
  const std::string pid = (folder.path() / "pid").string();
  const std::string go = (folder.path() / "go").string();
  ASSERT_EQ(::mkfifo(go.c_str(), 0600), 0);
  Command command(launch_words(shell(
      2,
      "trap '' TERM; if [ $RANK = 1 ]; then read x < '" + go +
          "'; exit 5; fi; echo $$ > '" + pid + "'; exec yes",
      {"--grace=0.2"})));
  command.wait_for("y\n"); // and reads nothing until the ranks have ended
  const UniqueFd process(static_cast<int>(
      ::syscall(SYS_pidfd_open, std::stoi(read_text(pid)), 0)));
  std::ofstream(go) << "\n";
  pollfd ended{process.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&ended, 1, 10000), 1) << "nobody stops the other rank";
  const Result result = command.finish();
  EXPECT_EQ(result.code, 5);
  EXPECT_THAT(result.err, HasSubstr("rank 1 (pid"));
}

TEST(LocalRanks, StartAgainAsOftenAsAskedFor) {
  const auto result = launch(shell(
      2,
      "echo try $CAIRN_RESTART_COUNT; [ $RANK = 0 ] && sleep 100; exit 7",
      {"--max-restarts=2", "--restart-delay=0.01"}));
  EXPECT_EQ(result.code, 7);
  EXPECT_THAT(
      lines_after(result.out, "[1] "),
      ElementsAre("try 0", "try 1", "try 2"));
  EXPECT_THAT(result.err, HasSubstr("restart 1 of 2 in 0.0 s"));
  EXPECT_THAT(result.err, HasSubstr("restart 2 of 2 in 0.0 s"));
  EXPECT_THAT(result.err, Not(HasSubstr("restart 3")));
}

TEST(LocalRanks, StartAgainUntilItGoesWell) {
  const TemporaryFolder folder;
  const auto result = launch(
      shell(
          1,
          "echo $MASTER_PORT; [ $CAIRN_RESTART_COUNT = 5 ]",
          {"--max-restarts=9",
           "--restart-delay=0.001",
           "--log-dir=" + folder.path().string()}),
      {{"CAIRN_RESTART_COUNT", "3"}});
  EXPECT_EQ(result.code, 0);
  const auto ports = lines_after(result.out, "[0] ");
  ASSERT_EQ(ports.size(), 3U);
  EXPECT_EQ(lines_after(read_text(folder.path() / "rank_0.log"), ""), ports);
  EXPECT_GT(std::set(ports.begin(), ports.end()).size(), 1U);
}

TEST(LocalRanks, DoNotStartAgainAfterASignal) {
  Command command(launch_words(
      shell(1, "exit 1", {"--max-restarts=5", "--restart-delay=1000"})));
  command.wait_for_error("restart 1 of 5 in 1000.0 s");
  command.send(SIGTERM);
  EXPECT_EQ(command.finish().code, 128 + SIGTERM);
}

TEST(LocalRanks, ThatCannotBeStartedAreAnError) {
  const TemporaryFolder folder;
  const auto check = [](const std::string& program, const char* message) {
    const auto result = launch({"--num_gpus=2", "--max-restarts=3", program});
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.err, Not(HasSubstr("restart")));
    EXPECT_THAT(result.err, HasSubstr(message));
  };
  check("no-such-program", "there is no program \"no-such-program\" on PATH");
  check("./no/such", "there is no program \"./no/such\" (No such file");
  check("/tmp", "\"/tmp\" is not an executable file");
  EXPECT_THAT(
      launch({"no-such-program"}).err,
      Not(HasSubstr("starting 1 of 1")));
  check(folder.write("train.sh", "true"), "name its interpreter before it");
  check(
      folder.write_script(
          "bare",
          "\x7f"
          "ELFnonsense"),
      "Exec format error");
}

TEST(LocalRanks, WorkWithoutStandardDescriptors) {
  const TemporaryFolder folder;
  const auto log = folder.path() / "log";
  const auto result = run(
      {"sh",
       "-c",
       "exec 0<&- 1>&- 2>&-; exec \"$@\"",
       "sh",
       LAUNCH_PROGRAM,
       "launch",
       "--no_local_rank",
       "--log-dir=" + log.string(),
       "sh",
       "-c",
       "echo out; echo err >&2"});
  const auto text = read_text(log / "rank_0.log");
  EXPECT_THAT(text, HasSubstr("out\n"));
  EXPECT_THAT(text, HasSubstr("err\n"));
}

} // namespace
} // namespace cairn::launch::fixtures::local_ranks_test
