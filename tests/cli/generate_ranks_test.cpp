// `cairn generate` and `cairn serve` with a model that ranks share.

#include "cli/pretrain_fixture.h"
#include "launch/internal/free_port.h"
#include "support/http_client.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace cairn::cli::generate_ranks_test {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using pretrain_test::cairn;
using pretrain_test::operator+;
using ::testing::AllOf;
using testing::body_of;
using testing::Command;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::post;
using testing::Result;
using testing::run;
using ::testing::StartsWith;
using testing::TemporaryFolder;
using testing::Words;

Words tiny(const std::string& model) {
  return {
      "--load",
      CAIRN_GOLDEN_DIR "/models/" + model,
      "--tokenizer-type",
      "NullTokenizer",
      "--vocab-size",
      "511"};
}

Words on_ranks(int tensor, int stages, const Words& words) {
  return cairn(
      Words{"launch", "--num_gpus", std::to_string(tensor * stages)} + words +
      Words{
          "--tensor-model-parallel-size",
          std::to_string(tensor),
          "--pipeline-model-parallel-size",
          std::to_string(stages)});
}

struct Layout {
  int tensor;
  int stages;
};
constexpr Layout layouts[] = {{2, 1}, {1, 2}, {2, 2}};

/// What the command writes to a file: in one process, then on ranks.
void expect_same_file(const Words& words, const std::vector<Layout>& all) {
  TemporaryFolder folder;
  const auto to = [&](const char* name) {
    return Words{"--genfile", (folder.path() / name).string()};
  };
  const Result alone = run(cairn(words + to("alone")));
  ASSERT_EQ(alone.code, 0) << alone.err;
  const std::string expected = testing::read_text(folder.path() / "alone");
  EXPECT_FALSE(expected.empty());
  for (const auto& [tensor, stages] : all) {
    const Result shared = run(on_ranks(tensor, stages, words + to("shared")));
    ASSERT_EQ(shared.code, 0) << shared.err;
    EXPECT_EQ(testing::read_text(folder.path() / "shared"), expected)
        << tensor << " x " << stages;
  }
}

TEST(GenerateOnRanks, WritesTheTextsOfOneProcess) {
  expect_same_file(
      Words{"generate"} + tiny("gpt2") +
          Words{
              "--num-samples",
              "5",
              "--out-seq-length",
              "12",
              "--top_k",
              "20",
              "--micro-batch-size",
              "3"},
      {std::begin(layouts), std::end(layouts)});
}

TEST(GenerateOnRanks, StagesChangeNoBitOfTheProbabilities) {
  expect_same_file(
      Words{
          "generate",
          "--load",
          CAIRN_GOLDEN_DIR "/models/llama",
          "--prompt-ids",
          "63,218,33,184",
          "--num-samples",
          "2",
          "--top_k",
          "30",
          "--out-seq-length",
          "8",
          "--return-log-probs"},
      {{1, 2}});
}

TEST(GenerateOnRanks, ContinuesFilesAndFindsBeams) {
  TemporaryFolder folder;
  folder.write("prompts", "63 218 33 184 481\n1 2 3\n");
  const std::string prompts = (folder.path() / "prompts").string();
  const Words words = Words{"generate"} + tiny("gpt2") +
      Words{
          "--sample-input-file",
          prompts,
          "--beam-width",
          "3",
          "--out-seq-length",
          "6"};
  ASSERT_EQ(run(cairn(words)).code, 0);
  const std::string expected = testing::read_text(prompts + ".out");
  const Result shared = run(on_ranks(2, 2, words));
  ASSERT_EQ(shared.code, 0) << shared.err;
  EXPECT_EQ(testing::read_text(prompts + ".out"), expected);
}

/// Any launcher that sets torchrun's variables.
TEST(GenerateOnRanks, StartsAsTorchrunStartsRanks) {
  std::vector<std::unique_ptr<Command>> ranks;
  const auto meeting = launch::free_port();
  const int port = meeting.number;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.push_back(std::make_unique<Command>(
        cairn(
            Words{"generate"} + tiny("gpt2") +
            Words{
                "--tensor-model-parallel-size",
                "2",
                "--prompt-ids",
                "63,218,33,184,481",
                "--greedy",
                "--out-seq-length",
                "3"}),
        std::vector<std::pair<std::string, std::string>>{
            {"RANK", std::to_string(rank)},
            {"WORLD_SIZE", "2"},
            {"LOCAL_RANK", std::to_string(rank)},
            {"LOCAL_WORLD_SIZE", "2"},
            {"MASTER_ADDR", "127.0.0.1"},
            {"MASTER_PORT", std::to_string(port)}}));
  }
  const Result first = ranks[0]->finish();
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr("\"ids\":[67,1,1]"));
  const Result second = ranks[1]->finish();
  EXPECT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(second.out, "");
}

TEST(GenerateOnRanks, RefusesWhatDoesNotFit) {
  const Words prompt{"--prompt-ids", "1,2"};
  EXPECT_THAT(
      run(cairn(
              Words{"launch", "--num_gpus", "2", "generate"} + tiny("gpt2") +
              prompt))
          .err,
      HasSubstr("the model is not divided over the ranks that there are (1 x 1 "
                "parts, 2 ranks); add --tensor-model-parallel-size 2"));
  EXPECT_THAT(
      run(on_ranks(2, 1, Words{"generate"} + tiny("gpt2"))).err,
      HasSubstr("prompts are not asked for on several ranks"));
  EXPECT_THAT(
      run(on_ranks(1, 3, Words{"generate"} + tiny("gpt2") + prompt)).err,
      HasSubstr("3 stages, 2 layers"));
  const Result alone = run(cairn(
      Words{"generate"} + tiny("gpt2") + prompt +
      Words{"--tensor-model-parallel-size", "2", "--out-seq-length", "1"}));
  EXPECT_EQ(alone.code, 0) << alone.err;
  EXPECT_THAT(alone.err, HasSubstr("one rank holds the whole model"));
}

TEST(GenerateOnRanks, PlansModelsThatNoMachineHereHolds) {
  const std::string recipes = CAIRN_SOURCE_DIR "/recipes/";
  const Result small = run(
      {"bash",
       "-c",
       fmt::format(
           "cd '{}' && '{}' generate @recipes/gpt-13b/flags "
           "--tensor-model-parallel-size 2 --dry-run=80GB",
           CAIRN_SOURCE_DIR,
           CAIRN_BINARY_DIR "/bin/cairn")});
  ASSERT_EQ(small.code, 0) << small.err;
  EXPECT_THAT(
      small.out,
      AllOf(
          HasSubstr("12853386240 parameters"),
          HasSubstr("8 = 4 pipeline x 2 tensor"),
          HasSubstr("    0    0-1     0-9     20               20  6.57 GB  "
                    "         205 kB  358536 tokens")));
  const Result large = run(
      {"bash",
       "-c",
       fmt::format(
           "cd '{}' && '{}' serve @recipes/gpt-175b/flags --weight-type bf16 "
           "--dry-run=1GB",
           CAIRN_SOURCE_DIR,
           CAIRN_BINARY_DIR "/bin/cairn")});
  ASSERT_EQ(large.code, 0) << large.err;
  EXPECT_THAT(
      large.out,
      AllOf(
          HasSubstr("174604259328 parameters"),
          HasSubstr("128 = 16 pipeline x 8 tensor"),
          HasSubstr("   15  120-127   90-95     12"),
          HasSubstr("2.87 GB"),
          HasSubstr("too large")));
}

/// A server on ranks, and the port where it listens.
class Served {
 public:
  Served(int tensor, int stages)
      : command_(on_ranks(
            tensor,
            stages,
            Words{"serve"} + tiny("gpt2") + Words{"--port", "0"})) {
    command_.wait_for(" until Ctrl-C");
    const std::string& out = command_.out();
    const std::size_t colon = out.find("127.0.0.1:") + 10;
    port_ = std::atoi(out.c_str() + colon);
  }

  Command& command() { return command_; }
  json reply(const json& request) const {
    const std::string answer = post(port_, "/api", request.dump(), "PUT");
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
    return json::parse(body_of(answer), nullptr, false);
  }
  int port() const { return port_; }
  /// The process of a rank.
  pid_t rank(int number) const {
    const std::string wanted = fmt::format("RANK={}", number);
    for (const pid_t pid : command_.living()) {
      std::ifstream file(fmt::format("/proc/{}/environ", pid));
      for (std::string entry; std::getline(file, entry, '\0');) {
        if (entry == wanted) {
          return pid;
        }
      }
    }
    return -1;
  }

 private:
  Command command_;
  int port_ = 0;
};

const json golden_request{
    {"prompts", {"63 218 33 184 481", "1 2"}},
    {"tokens_to_generate", 6},
    {"top_k", 1},
    {"logprobs", true}};

TEST(ServeOnRanks, AnswersAndEnds) {
  for (const auto& [tensor, stages] : layouts) {
    Served served(tensor, stages);
    for (int i = 0; i < 3; ++i) {
      const json reply = served.reply(golden_request);
      EXPECT_EQ(reply["text"][0], "63 218 33 184 481 67 1 1 1 1 1");
      EXPECT_EQ(reply["logprobs"][0].size(), 10U);
    }
    json beams = golden_request;
    beams["prompts"] = {"63 218 33 184 481"};
    beams["beam_width"] = 3;
    beams.erase("top_k");
    beams.erase("logprobs");
    EXPECT_EQ(served.reply(beams)["text"].size(), 3U);
    served.command().send(SIGTERM);
    const Result result = served.command().finish();
    EXPECT_THAT(result.err, Not(HasSubstr("error"))) << result.err;
    served.command().expect_nothing_left();
  }
}

/// Document 003's command, under the launcher.
TEST(ServeOnRanks, TakesMegatronsCommandLine) {
  Command command(cairn(
      Words{"launch", "--num_gpus", "1", "serve"} + tiny("gpt2") +
      Words{
          "--port",
          "0",
          "--tensor-model-parallel-size",
          "1",
          "--pipeline-model-parallel-size",
          "1",
          "--out-seq-length",
          "2048",
          "--temperature",
          "1.0",
          "--top_p",
          "0.9",
          "--seed",
          "42",
          "--micro-batch-size",
          "1"}));
  command.wait_for(" until Ctrl-C");
  command.send(SIGTERM);
  command.finish();
}

TEST(ServeOnRanks, ALostRankEndsTheServerByName) {
  Served served(2, 1);
  served.reply(golden_request);
  // Nobody asks anything meanwhile.
  const pid_t victim = served.rank(1);
  ASSERT_GT(victim, 0);
  ::kill(victim, SIGKILL);
  const Result result = served.command().finish();
  EXPECT_NE(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("rank 1"));
  served.command().expect_nothing_left();
}

} // namespace
} // namespace cairn::cli::generate_ranks_test
