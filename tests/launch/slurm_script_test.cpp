#include "launch/internal/slurm_script.h"
#include "launch/launched.h"

#include <cairn/base/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

namespace cairn::launch::slurm_script_test {
namespace {

using fixtures::lines_after;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Result;
using testing::run;
using testing::TemporaryFolder;

ClusterJob gpt175b() {
  ClusterJob job;
  job.name = "gpt-175b";
  job.nodes = 128;
  job.gpus_per_node = 8;
  job.command = {"pretrain", "gpt", "--lr=1.0e-4"};
  return job;
}

std::vector<std::string> directives(const std::string& script) {
  return lines_after(script, "#SBATCH ");
}

/// Runs the script with stand-ins for Slurm's programs: `srun` runs its command
/// once, as the second of the nodes.
Result run_script(const std::string& script, const std::string& cairn) {
  const TemporaryFolder folder;
  folder.write_script("cairn", "#!/bin/bash\n" + cairn);
  folder.write_script("scontrol", "#!/bin/sh\nseq -f node-%g 1 20000\n");
  folder.write_script(
      "srun",
      "#!/bin/bash\n"
      "while [[ $1 == --* ]]; do echo \"srun $1\"; shift; done\n"
      "SLURM_NODEID=1 exec \"$@\"\n");
  folder.write_script("sleep", "#!/bin/sh\necho \"sleep $1\"\n");
  testing::Command command(
      {"bash", folder.write("job", script)},
      {{"PATH", folder.path().string() + ":/usr/bin:/bin"},
       {"SLURM_JOB_NODELIST", "node-[1-20000]"},
       {"SLURM_JOB_ID", "123456"}});
  return command.finish();
}

TEST(SlurmScript, HasWhatSbatchReads) {
  auto job = gpt175b();
  const auto script = slurm_script(
      job,
      {.partition = "batch", .account = "team", .time = "2-00:00:00"});
  EXPECT_THAT(script, ::testing::StartsWith("#!/bin/bash\n"));
  for (const char* expected :
       {"--job-name=gpt-175b",
        "--nodes=128",
        "--ntasks-per-node=1",
        "--gpus-per-node=8",
        "--cpus-per-task=32",
        "--mem=512G",
        "--partition=batch",
        "--account=team",
        "--time=2-00:00:00",
        "--output=%x-%j.out"}) {
    EXPECT_THAT(directives(script), Contains(expected));
  }
  // sbatch stops reading directives at the first command.
  EXPECT_LT(script.rfind("#SBATCH"), script.find("set -e"));
}

TEST(SlurmScript, StartsALauncherOnEveryNode) {
  auto job = gpt175b();
  job.environment = {{"NAME", "it's $HOME\nnow"}};
  job.command.emplace_back("$x 'y' \"z\"");
  const auto result = run_script(
      slurm_script(job, {}),
      "printf '<%s>' \"$@\"; echo; echo \"$NAME\"");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(
      result.out,
      HasSubstr(
          "<launch><--node_rank=1><--master_addr=node-1>"
          "<--master_port=23456><--nnodes=128><--nproc_per_node=8>"
          "<pretrain><gpt><--lr=1.0e-4><$x 'y' \"z\">\nit's $HOME\nnow\n"));
  EXPECT_THAT(result.out, HasSubstr("srun --kill-on-bad-exit=1\n"));
  EXPECT_THAT(result.out, Not(HasSubstr("container")));
}

TEST(SlurmScript, GivesTheLaunchersASecret) {
  const auto result =
      run_script(slurm_script(gpt175b(), {}), "echo \"<$CAIRN_JOB_SECRET>\"");
  EXPECT_THAT(result.out, ::testing::ContainsRegex("<[0-9a-f]{64}>"));
  std::string without = slurm_script(gpt175b(), {});
  without.replace(without.find("od -An"), 2, "false");
  const auto refused = run_script(without, "echo started");
  EXPECT_EQ(refused.code, 1);
  EXPECT_EQ(refused.out, "");
}

TEST(SlurmScript, RunsInAContainer) {
  auto job = gpt175b();
  job.image = "nvcr.io#nvidia/cairn:1 2";
  job.working_dir = "/work dir";
  const auto script =
      slurm_script(job, {.mounts = {{"/data", "/data"}, {"/o p", "/q"}}});
  const auto result = run_script(script, "exit 5");
  EXPECT_EQ(result.code, 5);
  const auto flags = lines_after(result.out, "srun ");
  EXPECT_THAT(flags, Contains("--container-image=nvcr.io#nvidia/cairn:1 2"));
  EXPECT_THAT(flags, Contains("--container-workdir=/work dir"));
  EXPECT_THAT(flags, Contains("--container-mounts=/data:/data,/o p:/q"));
  job.image = "";
  EXPECT_THROW(
      slurm_script(job, {.mounts = {{"/data", "/data"}}}),
      ConfigError);
  EXPECT_THAT(
      directives(slurm_script(job, {})),
      Contains("--chdir=\"/work dir\""));
}

TEST(SlurmScript, StartsAgain) {
  auto job = gpt175b();
  job.max_restarts = 2;
  const auto script = slurm_script(job, {});
  const auto failing =
      run_script(script, "echo try $CAIRN_RESTART_COUNT; exit 9");
  EXPECT_EQ(failing.code, 9);
  EXPECT_THAT(
      lines_after(failing.out, "try "),
      ::testing::ElementsAre("0", "1", "2"));
  EXPECT_THAT(
      lines_after(failing.out, "sleep "),
      ::testing::ElementsAre("1", "2"));
  EXPECT_THAT(failing.err, HasSubstr("exit code 9: restart 2 of 2 in 2 s"));
  EXPECT_EQ(run_script(script, "((CAIRN_RESTART_COUNT == 1))").code, 0);
}

TEST(SlurmScript, QuotesWhatSbatchWouldMisread) {
  auto job = gpt175b();
  job.name = "a \"b\" 'c' # \\d";
  EXPECT_THAT(
      directives(slurm_script(job, {})),
      Contains("--job-name=\"a \\\"b\\\" 'c' # \\\\d\""));
  for (const char* bad : {"a\nb", "a\r", "x\n#SBATCH --exclusive"}) {
    job.name = bad;
    EXPECT_THROW(slurm_script(job, {}), ConfigError);
    EXPECT_THROW(slurm_script(gpt175b(), {.account = bad}), ConfigError);
  }
}

TEST(SlurmScript, HasATimeLimitThatSbatchReads) {
  for (const char* good :
       {"90", "90:30", "1:30:00", "2-12", "2-12:30", "2-0:0:1"}) {
    EXPECT_THAT(
        directives(slurm_script(gpt175b(), {.time = good})),
        Contains(std::string("--time=") + good));
  }
  for (const char* bad :
       {"soon",
        "1h",
        "-1",
        "1-",
        "1:",
        ":1",
        "1:2:3:4",
        "1-2-3",
        "1-2:3:4:5"}) {
    EXPECT_THROW(slurm_script(gpt175b(), {.time = bad}), ConfigError) << bad;
  }
}

TEST(SlurmScript, IsPrintedByTheProgram) {
  const auto result = fixtures::launch(
      {"--print-slurm",
       "--nnodes=2",
       "--nproc_per_node=4",
       "--master_port=6000",
       "--time=1:00",
       "--bind_cores_to_rank",
       "pretrain",
       "--partition=mine"});
  ASSERT_EQ(result.code, 0) << result.err;
  const TemporaryFolder folder;
  EXPECT_EQ(run({"bash", "-n", folder.write("job", result.out)}).code, 0);
  EXPECT_THAT(directives(result.out), Contains("--time=1:00"));
  EXPECT_THAT(result.out, HasSubstr("MASTER_PORT=6000"));
  EXPECT_THAT(
      result.out,
      HasSubstr("--bind_cores_to_rank pretrain --partition=mine\n"));
  EXPECT_THAT(
      result.out,
      HasSubstr(
          "\n  " + std::filesystem::canonical(LAUNCH_PROGRAM).string() +
          " --nnodes=2 "));
  EXPECT_THAT(
      fixtures::launch({"--print-slurm", "--container-image=x", "a"}).out,
      HasSubstr("\n  cairn --nnodes=1 "));
}

} // namespace
} // namespace cairn::launch::slurm_script_test
