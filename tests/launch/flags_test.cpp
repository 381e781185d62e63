#include "launch/launched.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

// The flags that people type.

namespace cairn::launch::fixtures::flags_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string planned(Words flags) {
  flags.insert(flags.begin(), "--dry-run");
  flags.insert(flags.end(), {"echo", "--num_gpus=9"});
  const auto result = launch(flags);
  EXPECT_EQ(result.code, 0) << result.err;
  return result.out;
}

TEST(LaunchFlags, AreSpelledEitherWay) {
  for (const Words& flags :
       {Words{"--num_gpus=3"},
        Words{"--num_gpus", "3"},
        Words{"--num-gpus=3"},
        Words{"--nproc_per_node", "3"},
        Words{"--nproc-per-node=3"}}) {
    EXPECT_THAT(planned(flags), HasSubstr("WORLD_SIZE=3\n"));
  }
  for (const Words& flags :
       {Words{"--nnodes", "2", "--node_rank", "1"},
        Words{"--num_nodes=2", "--node-rank=1"}}) {
    auto all = flags;
    all.insert(
        all.end(),
        {"--nproc_per_node",
         "2",
         "--master_addr",
         "10.1.1.1",
         "--master-port=6000"});
    const auto plan = planned(all);
    EXPECT_THAT(plan, HasSubstr("rank 3: echo --num_gpus=9 --local_rank=1\n"));
    EXPECT_THAT(plan, HasSubstr("WORLD_SIZE=4\n"));
    EXPECT_THAT(plan, HasSubstr("MASTER_ADDR=10.1.1.1\n"));
    EXPECT_THAT(plan, HasSubstr("MASTER_PORT=6000\n"));
    EXPECT_THAT(plan, Not(HasSubstr("rank 1:")));
  }
}

TEST(LaunchFlags, StartNothingOnADryRun) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "touched";
  launch({"--dry-run", "touch", file.string()});
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST(LaunchFlags, ShowWhatRunsOnEachHost) {
  const TemporaryFolder folder;
  const auto hosts = folder.write("hosts", "a slots=2\nb slots=4\n");
  const auto plan = planned(
      {"-H", hosts, "-i", "a@b:1,3", "--no_local_rank", "--env", "X=y z"});
  EXPECT_THAT(plan, HasSubstr("a: cd "));
  EXPECT_THAT(
      plan,
      HasSubstr("--world=1x2@b:1,3 --node_rank=1 --master_addr=a "
                "--master_port=29500"));
  EXPECT_THAT(plan, HasSubstr("'X=y z'"));
  EXPECT_THAT(
      plan,
      HasSubstr("\n  over ssh -o BatchMode=yes -o ServerAliveInterval=10 -o "
                "ServerAliveCountMax=3 b 'cd "));
  EXPECT_THAT(plan, HasSubstr("--no_local_rank echo --num_gpus=9\n"));
}

TEST(LaunchFlags, ShowCommandsAsAShellReadsThem) {
  const auto result =
      launch({"--dry-run", "--no_local_rank", "--env=X=y z", "echo", "a  'b"});
  EXPECT_THAT(result.out, HasSubstr("rank 0: echo 'a  '\\''b'\n"));
  EXPECT_THAT(result.out, HasSubstr("  X='y z'\n"));
}

TEST(LaunchFlags, RunScriptsOfPythonByPython) {
  const Words shown{"--dry-run", "--no_local_rank"};
  const auto plan_of = [&](const Words& program) {
    Words words = shown;
    words.insert(words.end(), program.begin(), program.end());
    return launch(words).out;
  };
  EXPECT_THAT(
      plan_of({"train.py", "--lr", "1"}),
      HasSubstr("rank 0: python3 -u train.py --lr 1\n"));
  EXPECT_THAT(
      plan_of({"--no_python", "train.py"}),
      HasSubstr("rank 0: train.py\n"));
}

void expect_refusal(const Words& words, const char* message) {
  const auto result = launch(words);
  EXPECT_EQ(result.code, 2) << result.out;
  EXPECT_THAT(result.err, HasSubstr(message));
  EXPECT_EQ(result.out, "");
}

TEST(LaunchFlags, AreRefusedWhenUnknown) {
  expect_refusal({"--num_gpsu=2", "true"}, "did you mean --num_gpus?");
  expect_refusal({"--no-such-thing", "true"}, "unknown flag --no-such-thing");
  expect_refusal({"-x", "true"}, "unknown flag -x");
  expect_refusal({"-", "true"}, "unknown flag -");
  expect_refusal({"--num_gpus=two", "true"}, "num_gpus");
  expect_refusal({"--num_gpus"}, "num_gpus");
  expect_refusal({"--num_gpus=1", "--nproc_per_node=2", "true"}, "num_gpus");
  expect_refusal({"--max-restarts=-1", "true"}, "max_restarts");
  expect_refusal({"--grace=-1", "true"}, "grace");
  expect_refusal({"--color=pink", "true"}, "color");
  expect_refusal({}, "no program to run");
  expect_refusal({"--num_gpus=2"}, "no program to run");
}

TEST(LaunchFlags, SayWhatTheyExpect) {
  const auto expect = [](Words words, const std::string& message) {
    words.emplace_back("true");
    const auto result = launch(words);
    EXPECT_EQ(result.code, 2);
    EXPECT_EQ(result.err, "cairn: " + message + " is expected\n");
  };
  expect(
      {"--max-restarts", "-1"},
      "--max_restarts is \"-1\"; a whole number of at least 0");
  expect(
      {"--print-slurm", "--cpus", "0"},
      "--cpus is \"0\"; a whole number of at least 1");
  expect({"--color", "blue"}, "--color is \"blue\"; auto or always or never");
  expect(
      {"--print-kubernetes", "--kind", "foo"},
      "--kind is \"foo\"; pytorchjob or deepspeedjob");
  expect({"--num_gpus", "abc"}, "--num_gpus is \"abc\"; a whole number");
  expect(
      {"--nnodes=99999999999"},
      "--num_nodes is \"99999999999\"; a whole "
      "number");
  expect({"--autotuning", "yes"}, "--autotuning is \"yes\"; tune or run");
  expect({"--grace=nan"}, "--grace is \"nan\"; a number from 0 to 3600");
}

TEST(LaunchFlags, OfDeepSpeedAreRefusedByName) {
  expect_refusal(
      {"--elastic-training", "true"},
      "the number of ranks is fixed");
  expect_refusal({"--enable_each_rank_log=x", "true"}, "use --log-dir");
}

TEST(LaunchFlags, ThatSayNothingAreRefused) {
  expect_refusal({"--partition=x", "true"}, "goes with --print_slurm");
  expect_refusal({"--queue=x", "true"}, "goes with --print_kubernetes");
  expect_refusal({"--memory=1Gi", "true"}, "goes with --print_slurm or");
  expect_refusal({"--print_slurm", "--kind=pytorchjob", "true"}, "--kind");
  expect_refusal(
      {"--print_slurm", "--print_kubernetes", "true"},
      "exclude each other");
  expect_refusal({"--print_slurm", "--include=a", "true"}, "--include");
  expect_refusal({"--no_ssh", "true"}, "--no_ssh without --node_rank");
  expect_refusal({"--env", "1=2", "true"}, "names no variable");
  expect_refusal({"--env", "NO_SUCH_VARIABLE", "true"}, "is not set here");
  expect_refusal(
      {"--env", "RANK=7", "true"},
      "--env RANK: the launcher itself sets it");
  expect_refusal({"--env=MASTER_PORT=7", "true"}, "--env MASTER_PORT");
  expect_refusal({"--hostfile=/no/such", "true"}, "/no/such");
}

TEST(LaunchFlags, AreExplained) {
  const auto result = launch({"--help"});
  EXPECT_EQ(result.code, 0);
  for (const char* flag :
       {"Usage: cairn launch [FLAGS…] PROGRAM [ARGUMENTS…]",
        "--num_gpus, --nproc_per_node, --num_accelerators N",
        "-H, --hostfile TEXT",
        "--max_restarts N",
        "--bind_cores_to_rank  ",
        "--print_slurm"}) {
    EXPECT_THAT(result.out, HasSubstr(flag));
  }
  EXPECT_THAT(result.out, Not(HasSubstr("--world")));
}

TEST(LaunchFlags, BehindTheProgramAreTheProgramsOwn) {
  const auto result = launch(
      {"--no_local_rank", "echo", "--help", "--", "-H", "x", "--num_gpus=2"});
  EXPECT_EQ(result.out, "[0] --help -- -H x --num_gpus=2\n");
}

} // namespace
} // namespace cairn::launch::fixtures::flags_test
