// What the planner says to a training: its estimate beside the run, and its
// answers where the configuration says "auto".

#include "support/command.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <map>
#include <sstream>
#include <string>

namespace cairn::cli::planned_run_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using testing::Result;
using testing::TemporaryFolder;
using Json = nlohmann::json;

class PlannedRun : public ::testing::Test {
 protected:
  /// A line of a shell in the folder, in which `cairn` is found.
  Result shell(const std::string& line) const {
    return testing::run(
        {"bash",
         "-c",
         "cd '" + folder_.path().string() +
             "'; export PATH='" CAIRN_BINARY_DIR "/bin':$PATH; " + line});
  }

  TemporaryFolder folder_;
};

const std::string net =
    "gpt --num-layers 4 --hidden-size 32 --num-attention-heads 2 "
    "--seq-length 32 --vocab-size 250 --tokenizer-type NullTokenizer "
    "--mock-data --lr 1e-3 --train-iters 2 --eval-iters 0 ";

/// The last event of each kind in a log.
std::map<std::string, Json> events_of(const std::filesystem::path& log) {
  std::istringstream lines(testing::read_text(log));
  std::map<std::string, Json> events;
  for (std::string line; std::getline(lines, line);) {
    const Json json = Json::parse(line);
    if (json.contains("event")) {
      events[json["event"]] = json;
    }
  }
  return events;
}

TEST_F(PlannedRun, SaysAtItsStartWhatItNeedsAndTakes) {
  const Result result = shell(
      "cairn launch --num_gpus 2 pretrain " + net +
      "--micro-batch-size 2 --zero-stage 1 --log-jsonl log.jsonl "
      "--log-interval 1; cairn report log.jsonl --output page.html");
  ASSERT_EQ(result.code, 0) << result.err;
  const std::string all = result.out + result.err;
  const auto at = all.find("by plan: ");
  ASSERT_NE(at, std::string::npos) << all;
  EXPECT_EQ(all.find("by plan: ", at + 1), std::string::npos) << "one line";
  EXPECT_THAT(
      all.substr(at, all.find('\n', at) - at),
      MatchesRegex("by plan: [0-9.]+ [MG]B of each rank's [0-9.]+ GB on .*, "
                   "[0-9.e-]+ m?s an iteration"));
  auto events = events_of(folder_ / "log.jsonl");
  ASSERT_TRUE(events.contains("estimate"));
  const Json& bytes = events["estimate"]["bytes"];
  // Adam in fp32: what a rank holds is known but for padding.
  const Json& held = events["memory"]["bytes"];
  for (const char* part : {"parameters", "optimizer"}) {
    const double measured = held[part];
    EXPECT_NEAR(bytes[part].get<double>(), measured, 0.02 * measured) << part;
  }
  EXPECT_GT(bytes["total"], bytes["parameters"]);
  EXPECT_THAT(
      testing::read_text(folder_ / "page.html"),
      HasSubstr("\"estimate\":{\"machine\":"));
}

/// Memory of a net that is large enough to be seen beside the program's own.
TEST_F(PlannedRun, TakesTheMemoryThatIsPlanned) {
  const Result result = shell(
      "cairn pretrain gpt --num-layers 4 --hidden-size 256 "
      "--num-attention-heads 4 --seq-length 128 --vocab-size 4000 "
      "--tokenizer-type NullTokenizer --mock-data --lr 1e-3 --train-iters 1 "
      "--eval-iters 0 --hidden-dropout 0 --attention-dropout 0 "
      "--micro-batch-size 16 --log-jsonl log.jsonl --log-interval 1");
  ASSERT_EQ(result.code, 0) << result.err;
  auto events = events_of(folder_ / "log.jsonl");
  const Json& planned = events["estimate"]["bytes"];
  const Json& measured = events["memory"]["bytes"];
  const double activations = measured["activations"];
  EXPECT_NEAR(
      (planned["activations"].get<double>() + planned["logits"].get<double>()) /
          activations,
      1,
      0.05);
  const double states = measured["parameters"].get<double>() +
      measured["gradients"].get<double>() + measured["optimizer"].get<double>();
  const double total = planned["total"];
  const double context = planned["context"];
  EXPECT_NEAR((total - context) / (states + activations), 1, 0.03);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  // The most that the process has had: its allocator keeps some of what it has
  // freed, and the program's own memory differs from machine to machine.
  const double most = measured["most allocated"];
  EXPECT_NEAR(total / most, 1, 0.15);
#endif
}

// What a plan writes trains: the JSON, the flags and the launch line, also from
// a folder whose name has to be quoted.
TEST_F(PlannedRun, WrittenByThePlannerStarts) {
  folder_.write("two.json", R"({
    "name": "two cores", "about": "a small machine", "gpus_per_node": 2,
    "nodes": 1,
    "gpu": {"name": "core", "memory_gb": 4, "tflops": 0.1, "tflops_32bit": 0.1,
            "bandwidth_gb_per_s": 10, "matmul_share": 0.5},
    "host": {"memory_gb": 8, "copy_gb_per_s": 5, "adam_billion_per_s": 0.1},
    "levels": [{"name": "bus", "ranks": 2, "gb_per_s": 5, "microseconds": 20}]
  })");
  const Result result = shell(
      "cairn plan " + net +
      "--global-batch-size 8 --fp32 --cluster two.json --num-gpus 2 --write "
      "\"my plans/best one\" && \"my plans/best one/launch.sh\" "
      "--log-jsonl log.jsonl");
  ASSERT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_THAT(
      result.out + result.err,
      AllOf(
          HasSubstr("starting 2 of 2 ranks here"),
          HasSubstr("the training is done, after iteration 2")));
  const Json written =
      Json::parse(testing::read_text(folder_ / "my plans/best one/ds.json"));
  EXPECT_THAT(
      result.out + result.err,
      HasSubstr(
          "effective batch 8 = " +
          written.at("train_micro_batch_size_per_gpu").dump() + " per rank"));
}

TEST_F(PlannedRun, SaysByPlanWhatDidNotFit) {
  const Result result = shell(
      "ulimit -v 6000000; cairn pretrain " + net +
      "--micro-batch-size 1048576");
  EXPECT_EQ(result.code, 1);
  const std::string all = result.out + result.err;
  EXPECT_THAT(all, HasSubstr("out of memory in forward"));
  EXPECT_THAT(
      all.substr(all.rfind("error: by plan: ")),
      AllOf(HasSubstr(" GB of each rank's "), HasSubstr("\n  activations ")));
}

TEST_F(PlannedRun, AnswersWhereTheConfigurationSaysAuto) {
  folder_.write("ds.json", R"({
    "train_batch_size": 8, "train_micro_batch_size_per_gpu": "auto",
    "zero_optimization": {"stage": 2,
      "offload_optimizer": {"device": "cpu", "ratio": "auto"}}})");
  const Result whole =
      shell("cairn pretrain " + net + "--dry-run=2 --deepspeed_config ds.json");
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_THAT(
      whole.out,
      AllOf(
          HasSubstr("train_micro_batch_size_per_gpu \"auto\" is 4: by plan "),
          HasSubstr("offload_optimizer.ratio \"auto\" is 0: by plan "),
          HasSubstr("batch 8 = 4 per rank")));

  folder_.write("pipe.json", R"({
    "train_batch_size": 8, "train_micro_batch_size_per_gpu": 2,
    "pipeline": {"partition": "auto"}})");
  const Result pipeline = shell(
      "cairn pretrain " + net +
      "--dry-run=2 --pipeline-model-parallel-size 2 --deepspeed_config "
      "pipe.json");
  ASSERT_EQ(pipeline.code, 0) << pipeline.err;
  EXPECT_THAT(
      pipeline.out,
      HasSubstr("pipeline.partition \"auto\" is a cut by work: by plan "));

  // What a flag says is not asked about, and an open batch is found as well.
  folder_.write("open.json", R"({"train_micro_batch_size_per_gpu": "auto"})");
  const Result given = shell(
      "cairn pretrain " + net +
      "--dry-run=1 --micro-batch-size 2 --deepspeed_config open.json");
  EXPECT_EQ(given.out.find("auto"), std::string::npos) << given.out;
  const Result open = shell(
      "cairn pretrain " + net + "--dry-run=1 --deepspeed_config open.json");
  EXPECT_EQ(open.code, 0) << open.err;
  EXPECT_THAT(open.out, HasSubstr("\"auto\" is 64: by plan "));
}

} // namespace
} // namespace cairn::cli::planned_run_test
