#include "distributed/start/slurm_nodelist.h"

#include <cairn/base/error.h>
#include <cairn/distributed/environment.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace cairn::distributed::environment_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

Lookup in(Variables variables) {
  return [variables = std::move(variables)](
             const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt
                                    : std::optional(found->second);
  };
}

std::string refusal(const Variables& variables) {
  try {
    read_environment(in(variables));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "not refused";
}

TEST(Environment, NothingSetIsAWorldOfOne) {
  EXPECT_EQ(read_environment(in({})), Environment{});
  // An interactive Slurm allocation or a batch script exports these.
  EXPECT_EQ(
      read_environment(in({{"SLURM_NTASKS", "8"}, {"MASTER_ADDR", "n1"}})),
      Environment{});
}

TEST(Environment, ReadsTorchrun) {
  const Environment expected = {
      .source = Environment::Source::torchrun,
      .rank = 5,
      .world_size = 8,
      .local_rank = 1,
      .local_world_size = 4,
      .node_rank = 1,
      .master_address = "10.0.0.1",
      .master_port = 1234,
      .launcher_has_store = true,
      .attempt = 2};
  EXPECT_EQ(
      read_environment(
          in({{"RANK", "5"},
              {"WORLD_SIZE", "8"},
              {"LOCAL_RANK", "1"},
              {"LOCAL_WORLD_SIZE", "4"},
              {"GROUP_RANK", "1"},
              {"MASTER_ADDR", "10.0.0.1"},
              {"MASTER_PORT", "1234"},
              {"TORCHELASTIC_USE_AGENT_STORE", "True"},
              {"TORCHELASTIC_RESTART_COUNT", "2"},
              {"SLURM_PROCID", "3"}})),
      expected);
}

TEST(Environment, TorchrunNeedsLittle) {
  const Environment pod = read_environment(
      in({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "pod-0"}}));
  EXPECT_EQ(pod.master_port, 29500);
  EXPECT_EQ(pod.local_rank, 0);
  const Environment one =
      read_environment(in({{"RANK", "0"}, {"WORLD_SIZE", "1"}}));
  EXPECT_EQ(one.world_size, 1);
}

TEST(Environment, ReadsSlurm) {
  Variables variables = {
      {"SLURM_PROCID", "3"},
      {"SLURM_NTASKS", "6"},
      {"SLURM_LOCALID", "1"},
      {"SLURM_NTASKS_PER_NODE", "2"},
      {"SLURM_NODEID", "1"},
      {"SLURM_NODELIST", "gpu[03-05,7],login1"}};
  const Environment expected = {
      .source = Environment::Source::slurm,
      .rank = 3,
      .world_size = 6,
      .local_rank = 1,
      .local_world_size = 2,
      .node_rank = 1,
      .master_address = "gpu03"};
  EXPECT_EQ(read_environment(in(variables)), expected);
  variables["SLURM_STEP_NODELIST"] = "gpu07";
  variables["SLURM_STEP_NUM_TASKS"] = "4";
  variables["MASTER_PORT"] = "40000";
  const Environment step = read_environment(in(variables));
  EXPECT_EQ(step.master_address, "gpu07");
  EXPECT_EQ(step.world_size, 4);
  EXPECT_EQ(step.master_port, 40000);
}

TEST(Environment, ReadsOpenMpi) {
  Variables variables = {
      {"OMPI_COMM_WORLD_RANK", "1"},
      {"OMPI_COMM_WORLD_SIZE", "2"},
      {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  const Environment here = read_environment(in(variables));
  EXPECT_EQ(here.source, Environment::Source::open_mpi);
  EXPECT_EQ(here.rank, 1);
  EXPECT_EQ(here.local_rank, 1);
  EXPECT_EQ(here.master_address, "127.0.0.1");
  variables["OMPI_COMM_WORLD_LOCAL_SIZE"] = "1";
  EXPECT_THAT(
      refusal(variables),
      AllOf(HasSubstr("MASTER_ADDR missing"), HasSubstr("-x MASTER_ADDR=")));
  variables["MASTER_ADDR"] = "head";
  EXPECT_EQ(read_environment(in(variables)).master_address, "head");
}

TEST(Environment, ALocalRankAlonePicksTheGpuOfASingleProcess) {
  EXPECT_EQ(
      read_environment(in({{"LOCAL_RANK", "1"}})),
      Environment{.local_rank = 1});
  EXPECT_EQ(
      read_environment(in({{"LOCAL_RANK", "0"},
                           {"SLURM_PROCID", "3"},
                           {"SLURM_NTASKS", "4"},
                           {"SLURM_LOCALID", "0"},
                           {"SLURM_NODELIST", "node"}}))
          .rank,
      3);
}

TEST(Environment, HalfASetNamesWhatIsThereAndWhatIsNot) {
  EXPECT_THAT(
      refusal({{"RANK", "1"}}),
      AllOf(HasSubstr("WORLD_SIZE missing"), HasSubstr("set: RANK=1")));
  EXPECT_THAT(
      refusal({{"RANK", "1"}, {"WORLD_SIZE", "2"}}),
      AllOf(
          HasSubstr("MASTER_ADDR missing"),
          HasSubstr("set: RANK=1, WORLD_SIZE=2")));
  EXPECT_THAT(
      refusal({{"SLURM_PROCID", "1"}}),
      HasSubstr("SLURM_NTASKS missing"));
  EXPECT_THAT(
      refusal({{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}}),
      HasSubstr("SLURM_LOCALID missing"));
  EXPECT_THAT(
      refusal(
          {{"SLURM_PROCID", "1"},
           {"SLURM_NTASKS", "2"},
           {"SLURM_LOCALID", "1"}}),
      HasSubstr("SLURM_NODELIST missing"));
  EXPECT_THAT(
      refusal({{"OMPI_COMM_WORLD_SIZE", "2"}}),
      HasSubstr("OMPI_COMM_WORLD_RANK missing"));
}

TEST(Environment, BadValuesAreNamed) {
  const auto with = [](const char* name, const char* value) {
    Variables variables = {
        {"RANK", "1"},
        {"WORLD_SIZE", "2"},
        {"MASTER_ADDR", "a"}};
    variables[name] = value;
    return refusal(variables);
  };
  EXPECT_THAT(
      with("RANK", "one"),
      HasSubstr("RANK=\"one\" is not a whole number"));
  EXPECT_THAT(with("RANK", "1 "), HasSubstr("RANK=\"1 \""));
  EXPECT_THAT(with("RANK", "-1"), HasSubstr("at least 0"));
  EXPECT_THAT(with("RANK", "99999999999"), HasSubstr("RANK"));
  EXPECT_THAT(with("RANK", "2"), HasSubstr("rank 2 is outside a world of 2"));
  EXPECT_THAT(with("WORLD_SIZE", "0"), HasSubstr("WORLD_SIZE=\"0\""));
  EXPECT_THAT(with("MASTER_PORT", "65536"), HasSubstr("from 1 to 65535"));
  EXPECT_THAT(with("MASTER_ADDR", ""), HasSubstr("MASTER_ADDR missing"));
}

TEST(Environment, ReadsTheCollectiveTimeout) {
  EXPECT_EQ(read_collective_timeout(in({})), std::nullopt);
  EXPECT_EQ(
      read_start_timeout(in({{"CAIRN_START_TIMEOUT", "7"}})),
      std::chrono::seconds(7));
  EXPECT_EQ(
      read_collective_timeout(in({{"CAIRN_COLLECTIVE_TIMEOUT", "90"}})),
      std::chrono::seconds(90));
  EXPECT_THROW(
      read_collective_timeout(in({{"CAIRN_COLLECTIVE_TIMEOUT", "soon"}})),
      ConfigError);
}

TEST(Environment, SharedMemoryIsOnOrOff) {
  EXPECT_EQ(read_shared_memory(in({})), std::nullopt);
  EXPECT_EQ(read_shared_memory(in({{"CAIRN_SHARED_MEMORY", "0"}})), false);
  EXPECT_EQ(read_shared_memory(in({{"CAIRN_SHARED_MEMORY", "1"}})), true);
  EXPECT_THROW(
      read_shared_memory(in({{"CAIRN_SHARED_MEMORY", "off"}})),
      ConfigError);
}

TEST(SlurmNodelist, FindsTheFirstHost) {
  EXPECT_EQ(first_slurm_host("login1"), "login1");
  EXPECT_EQ(first_slurm_host("a,b"), "a");
  EXPECT_EQ(first_slurm_host("node[03-05,7]"), "node03");
  EXPECT_EQ(first_slurm_host("node[7],x[1-2]"), "node7");
  EXPECT_EQ(first_slurm_host("rack[1-2]-node[3,4].site"), "rack1-node3.site");
}

TEST(SlurmNodelist, RefusesNonsense) {
  for (const char* text :
       {"", ",a", "a[", "a[]", "a[-3]", "a]", "a[x]", "a b", "a[[1]]", "[,]"}) {
    EXPECT_THROW(first_slurm_host(text), ConfigError) << text;
  }
}

} // namespace
} // namespace cairn::distributed::environment_test
