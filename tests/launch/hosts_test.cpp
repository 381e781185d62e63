#include "launch/launched.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>

// The launcher with ranks on several hosts, which are network namespaces of
// this machine. Making those takes root; where there is none, CAIRN_NO_NETNS=1
// skips these tests.

namespace cairn::launch::fixtures::hosts_test {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

class Hosts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("CAIRN_NO_NETNS") != nullptr) {
      GTEST_SKIP() << "CAIRN_NO_NETNS is set";
    }
    const auto made = run(
        {"sh",
         "-ec",
         "ip netns add $1; ip netns add $2; "
         "ip link add eth0 netns $1 type veth peer name eth0 netns $2; "
         "ip -n $1 addr add 10.0.0.1/24 dev eth0; "
         "ip -n $2 addr add 10.0.0.2/24 dev eth0; "
         "for host in $1 $2; do ip -n $host link set lo up; "
         "ip -n $host link set eth0 up; done",
         "sh",
         a_,
         b_});
    ASSERT_EQ(made.code, 0)
        << "network namespaces cannot be made; be root, or set "
           "CAIRN_NO_NETNS=1 to leave these tests out\n"
        << made.err;
  }

  void TearDown() override {
    run({"ip", "netns", "del", a_});
    run({"ip", "netns", "del", b_});
  }

  /// Two ranks on the first host, one on the second.
  Words flags(Words more = {}) const {
    Words words = {
        "--hostfile=" + hostfile_,
        "--ssh-command=" + ssh_,
        "--master_addr=10.0.0.1",
        "--no_local_rank",
        std::string("--env=") + mark_variable};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  Words shell(const std::string& script, Words more = {}) const {
    auto words = flags(std::move(more));
    words.insert(words.end(), {"sh", "-c", script});
    return words;
  }

  std::string label(const std::string& host, int rank) const {
    return fmt::format("[{} {}] ", host, rank);
  }

  /// The process on our side that stands for the connection to `host`.
  static pid_t local_end(const std::string& host) {
    using namespace std::string_literals;
    const auto start = "setsid\0--wait\0ip\0netns\0exec\0"s + host + "\0"s;
    for (const auto& folder : std::filesystem::directory_iterator("/proc")) {
      if (read_text(folder.path() / "cmdline").starts_with(start)) {
        return std::stoi(folder.path().filename());
      }
    }
    return 0;
  }

  const std::string a_ = fmt::format("cairn-{}-a", ::getpid());
  const std::string b_ = fmt::format("cairn-{}-b", ::getpid());
  TemporaryFolder folder_;
  const std::string hostfile_ =
      folder_.write("hosts", fmt::format("{} slots=2\n{} slots=1\n", a_, b_));
  // Nothing of the environment comes along, as with ssh, and the process on the
  // host is no child of this side.
  const std::string ssh_ = folder_.write_script(
      "ssh",
      "#!/bin/sh\n"
      "exec env -i PATH=\"$PATH\" HOME=\"$HOME\" "
      "setsid --wait ip netns exec \"$1\" sh -c \"$2\"\n");
};

TEST_F(Hosts, HaveRanksThatMeet) {
  const auto program = folder_.write(
      "meet.py",
      "import os, socket\n"
      "rank, world = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])\n"
      "place = os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT'])\n"
      "if rank == 0:\n"
      "    server = socket.create_server(place)\n"
      "    got = [server.accept()[0].recv(9).decode() for _ in range(world - "
      "1)]\n"
      "    print('met', *sorted(got))\n"
      "else:\n"
      "    while True:\n"
      "        try:\n"
      "            socket.create_connection(place).send(str(rank).encode())\n"
      "            break\n"
      "        except ConnectionRefusedError:\n"
      "            pass\n"
      "print('rank', rank, os.environ['LOCAL_RANK'], "
      "os.environ['NODE_RANK'])\n");
  auto words = flags({"--master_port=6001"});
  words.insert(words.end(), {"python3", program});
  const auto result = launch(words);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(
      lines_after(result.out, label(a_, 0)),
      ElementsAre("met 1 2", "rank 0 0 0"));
  EXPECT_THAT(lines_after(result.out, label(a_, 1)), ElementsAre("rank 1 1 0"));
  EXPECT_THAT(lines_after(result.out, label(b_, 2)), ElementsAre("rank 2 0 1"));
}

TEST_F(Hosts, ShareASecretThatNoCommandLineShows) {
  const std::string seen = (folder_.path() / "seen").string();
  const auto result = launch(shell(
      "echo $CAIRN_JOB_SECRET; cat /proc/[0-9]*/cmdline > " + seen +
      "$RANK; printenv CAIRN_JOB_SECRET | grep -acFf - " + seen +
      "$RANK || true"));
  EXPECT_EQ(result.code, 0) << result.err;
  const auto first = lines_after(result.out, label(a_, 0));
  ASSERT_EQ(first.size(), 2U) << result.out << result.err;
  EXPECT_EQ(first[0].size(), 64U);
  EXPECT_EQ(first[1], "0");
  EXPECT_THAT(
      lines_after(result.out, label(b_, 2)),
      ElementsAre(first[0], "0"));
}

TEST_F(Hosts, KeepTheUsersSecretOffCommandLines) {
  const std::string seen = (folder_.path() / "seen").string();
  // The pattern does not find itself on the command line of the script.
  const Words words = shell(
      "cat /proc/[0-9]*/cmdline > " + seen +
          "$RANK; echo $CAIRN_JOB_SECRET; grep -ac 'of[-]mine' " + seen +
          "$RANK || true",
      {"--env=CAIRN_JOB_SECRET"});
  const auto result = launch(words, {{"CAIRN_JOB_SECRET", "one-of-mine"}});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(
      lines_after(result.out, label(b_, 2)),
      ElementsAre("one-of-mine", "0"));
}

TEST_F(Hosts, HaveASecretWhereAnEmptyOneIsSet) {
  const auto result =
      launch(shell("echo ${#CAIRN_JOB_SECRET}"), {{"CAIRN_JOB_SECRET", ""}});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(lines_after(result.out, label(b_, 2)), ElementsAre("64"));
}

TEST_F(Hosts, AreStoppedWhenARankFailsElsewhere) {
  // The rank beside the failing one takes its time, and the ranks of the other
  // host fail in turn as soon as they are stopped: still the first is reported.
  folder_.write("hosts", fmt::format("{} slots=1\n{} slots=2\n", a_, b_));
  const auto result = launch(shell(
      "case $RANK in "
      "0) trap 'echo sorry; exit 9' TERM; while :; do sleep 0.01; done;; "
      "1) trap '' TERM; while :; do sleep 0.01; done;; "
      "2) for i in 1 2 3; do echo word $i; done; sleep 0.3; echo boom >&2; "
      "exit 44;; esac",
      {"--grace=1"}));
  EXPECT_EQ(result.code, 44);
  EXPECT_LT(result.took, seconds(8));
  EXPECT_THAT(lines_after(result.out, label(a_, 0)), ElementsAre("sorry"));
  const auto report = result.err.substr(result.err.rfind("error: "));
  EXPECT_THAT(
      report,
      HasSubstr(fmt::format("host {}) exited with code 44", b_)));
  EXPECT_THAT(report, HasSubstr("rank 2 (pid "));
  const auto mine = label(b_, 2);
  EXPECT_THAT(
      report,
      EndsWith(fmt::format(
          "its last lines:\n{0}word 1\n{0}word 2\n{0}word 3\n{0}boom\n",
          mine)));
}

TEST_F(Hosts, PassOnHowARankWasKilled) {
  const auto result =
      launch(shell("[ $RANK = 1 ] && kill -9 $$; exec sleep 1000"));
  EXPECT_EQ(result.code, 137);
  EXPECT_LT(result.took, seconds(8));
  EXPECT_THAT(
      result.err.substr(result.err.rfind("error: ")),
      HasSubstr("was killed by SIGKILL"));
}

TEST_F(Hosts, GetTheSignalThatTheLauncherGets) {
  Command command(launch_words(
      shell("for s in INT TERM HUP; do trap \"echo got $s; exit 0\" $s; done; "
            "echo ready $RANK; while :; do sleep 0.01; done")));
  for (const char* rank : {"0", "1", "2"}) {
    command.wait_for(std::string("ready ") + rank);
  }
  command.send(SIGINT);
  const auto result = command.finish();
  EXPECT_EQ(result.code, 130);
  EXPECT_THAT(
      lines_after(result.out, label(b_, 2)),
      ElementsAre("ready 2", "got INT"));
  EXPECT_THAT(
      lines_after(result.out, label(a_, 0)),
      ElementsAre("ready 0", "got INT"));
  EXPECT_TRUE(command.living().empty());
}

TEST_F(Hosts, KeepNothingWhenTheLauncherIsKilled) {
  Command command(launch_words(shell(
      "setsid sleep 1000 & echo ready $RANK; sleep 1000",
      {"--grace=0.2"})));
  for (const char* rank : {"0", "1", "2"}) {
    command.wait_for(std::string("ready ") + rank);
  }
  command.send(SIGKILL);
  command.expect_nothing_left();
}

TEST_F(Hosts, KeepNothingWhenSshIsKilled) {
  Command command(
      launch_words(shell("echo ready $RANK; sleep 1000", {"--grace=0.2"})));
  for (const char* rank : {"0", "1", "2"}) {
    command.wait_for(std::string("ready ") + rank);
  }
  const auto connection = local_end(b_);
  ASSERT_NE(connection, 0);
  ASSERT_EQ(::kill(connection, SIGKILL), 0);
  const auto result = command.finish();
  EXPECT_EQ(result.code, 137);
  EXPECT_THAT(
      result.err,
      HasSubstr(fmt::format("the launcher for {} (pid ", b_)));
  command.expect_nothing_left();
}

TEST_F(Hosts, ThatCannotBeReachedAreNamed) {
  folder_.write_script(
      "ssh",
      fmt::format(
          "#!/bin/sh\n"
          "[ $1 = {} ] && echo 'ssh: no route to host' >&2 && exit 255\n"
          "exec ip netns exec \"$1\" sh -c \"$2\"\n",
          b_));
  const auto result = launch(shell("exec sleep 1000"));
  EXPECT_EQ(result.code, 255);
  EXPECT_LT(result.took, seconds(8));
  EXPECT_THAT(
      result.err.substr(result.err.rfind("error: ")),
      ::testing::MatchesRegex(fmt::format(
          "error: the launcher for {0} \\(pid [0-9]+, host {0}\\) exited with "
          "code 255 after [0-9.]+ s; its last lines:\n\\[{0}\\] ssh: no route "
          "to host\n",
          b_)));
}

TEST_F(Hosts, GetTheEnvironmentThatTheyNeed) {
  const TemporaryFolder home;
  home.write(".deepspeed_env", "FROM_FILE=it's $fine\n");
  Command command(
      launch_words(shell(
          "echo \"$NCCL_TEST|$FROM_FILE|$CHOSEN|$SECRET\"",
          {"--env=CHOSEN=two words", "--num_nodes=1", "--num_gpus=1"})),
      {{"HOME", home.path().string()},
       {"NCCL_TEST", "\"quoted\"\nline"},
       {"SECRET", "not exported"}});
  const auto result = command.finish();
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(
      lines_after(result.out, label(a_, 0)),
      ElementsAre("\"quoted\"", "line|it's $fine|two words|"));
}

TEST_F(Hosts, KeepLogsAndStartAgainTogether) {
  const auto logs = folder_.path() / "logs";
  const auto result = launch(shell(
      "echo try $CAIRN_RESTART_COUNT; [ $RANK = 2 ] || exec sleep 1000; "
      "exit 6",
      {"--max-restarts=1",
       "--restart-delay=0.01",
       "--grace=1",
       "--log-dir=" + logs.string()}));
  EXPECT_EQ(result.code, 6);
  EXPECT_THAT(
      lines_after(result.out, label(b_, 2)),
      ElementsAre("try 0", "try 1"));
  EXPECT_THAT(result.err, HasSubstr("restart 1 of 1"));
  EXPECT_EQ(read_text(logs / "rank_2.log"), "try 0\ntry 1\n");
}

TEST_F(Hosts, DoNotTryAgainWhatCannotBeRun) {
  const auto result = launch(
      flags({"--max-restarts=3", "--restart-delay=0.01", "/no/such/program"}));
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("there is no program"));
  EXPECT_THAT(result.err, HasSubstr("not restarting"));
  EXPECT_THAT(result.err, Not(HasSubstr("restart 1 of 3")));
}

TEST_F(Hosts, FailingWithTheSameCodeStartAgain) {
  const auto result =
      launch(shell("exit 2", {"--max-restarts=1", "--restart-delay=0.01"}));
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("restart 1 of 1"));
}

TEST_F(Hosts, CanBeStartedByHand) {
  // A launcher on each, as a user without ssh would start it; the last rank
  // answers.
  const auto node = [&](int rank) {
    return Words{
        "ip",
        "netns",
        "exec",
        rank == 0 ? a_ : b_,
        LAUNCH_PROGRAM,
        "launch",
        "--nnodes=2",
        "--nproc_per_node=2",
        "--node_rank=" + std::to_string(rank),
        "--master_addr=10.0.0.1",
        "--master_port=6000",
        "tell"};
  };
  EXPECT_THAT(
      lines_after(run(node(0)).out, "[1] "),
      ElementsAre("rank 1 of 4"));
  EXPECT_THAT(
      lines_after(run(node(1)).out, "[3] "),
      ElementsAre("rank 3 of 4"));
}

} // namespace
} // namespace cairn::launch::fixtures::hosts_test
