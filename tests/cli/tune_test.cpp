// `cairn tune` and `cairn launch --autotuning`, run as a user would: real
// processes over Gloo.

#include "support/docs_blocks.h"
#include "tune_fixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace cairn::cli::tune_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Result;
using Json = nlohmann::json;

TEST_F(Tune, MeasuresTheBestByPlanOnTwoRanksAndLeavesTheResultsAlone) {
  testing::Command command(line(
      "tune --num-gpus 2 --trials 3 --steps 2-3" + std::string(net) +
      "--global-batch-size 8"));
  const Result result = command.finish();
  ASSERT_EQ(result.code, 0) << result.out << result.err;
  command.expect_nothing_left();
  EXPECT_THAT(files(), ElementsAre("autotuning_results"));

  const Json results = json("autotuning_results/results.json");
  EXPECT_EQ(results["ranks"], 2);
  ASSERT_EQ(results["trials"].size(), 3U) << results;
  EXPECT_THAT(statuses(results), Each("measured"));
  double best = 0;
  for (const Json& trial : results["trials"]) {
    EXPECT_EQ(trial["run"]["deepspeed"]["train_batch_size"], 8)
        << "what is given stays";
    EXPECT_GT(trial["planned"]["memory_bytes"], 0);
    EXPECT_DOUBLE_EQ(
        trial["tokens_per_second"].get<double>() *
            trial["step_seconds"].get<double>(),
        8 * 32);
    best = std::max(best, trial["tokens_per_second"].get<double>());
  }
  const Json& chosen = results["trials"][results["best"].get<std::size_t>()];
  EXPECT_EQ(chosen["tokens_per_second"], best);
  EXPECT_EQ(json("autotuning_results/best.json"), chosen["run"]["deepspeed"]);
  EXPECT_THAT(
      result.out,
      AllOf(HasSubstr("as given"), HasSubstr("times the tokens per second")));

  // What it recommends can be run.
  const Result again = testing::run(
      {"bash",
       "-c",
       "cd '" + folder_.path().string() +
           "'; PATH='" CAIRN_BINARY_DIR
           "/bin':$PATH autotuning_results/best.sh --train-iters 1 "
           "--eval-iters 0"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.out + again.err, HasSubstr("the training is done"));
}

TEST_F(Tune, TriesOtherMessagesOfTheBestWhereTheyDiffer) {
  // 2.6 million parameters are three buckets of the least size that there is.
  testing::Command command(line(
      "tune --num-gpus 2 --steps 2-3 --vary overlap,bucket gpt --num-layers 2 "
      "--hidden-size 320 --num-attention-heads 4 --seq-length 32 "
      "--vocab-size 250 --tokenizer-type NullTokenizer --mock-data --lr 1e-3 "
      "--global-batch-size 8 --micro-batch-size 4 --zero-stage 2"));
  const Result result = command.finish();
  ASSERT_EQ(result.code, 0) << result.out << result.err;
  const Json trials = json("autotuning_results/results.json")["trials"];
  ASSERT_EQ(trials.size(), 2U) << "no limit makes other buckets: " << trials;
  EXPECT_EQ(
      trials[1]["run"]["deepspeed"]["zero_optimization"]["overlap_comm"],
      false);
  EXPECT_GT(
      trials[1]["planned"]["step_seconds"],
      trials[0]["planned"]["step_seconds"])
      << "nothing hides the messages";
}

// Nothing but the model is given: by default a rank has a micro batch of 1, and
// most of an update is overhead.
TEST_F(Tune, BeatsTheDefaultConfigurationOnTwoRanks) {
  const Result result =
      run("tune --num-gpus 2 --trials 3 --steps 3-6" + std::string(net));
  ASSERT_EQ(result.code, 0) << result.err;
  const Json results = json("autotuning_results/results.json");
  const Json& given = results["trials"][0];
  const Json& best = results["trials"][results["best"].get<std::size_t>()];
  EXPECT_EQ(given["settings"], "ZeRO 0, micro batch 1");
  EXPECT_GT(
      best["run"]["deepspeed"]["train_micro_batch_size_per_gpu"].get<int>(),
      1);
  EXPECT_GT(
      best["tokens_per_second"].get<double>(),
      1.5 * given["tokens_per_second"].get<double>())
      << results;
}

TEST_F(Tune, LeavesNothingBehindWhenItIsStopped) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    testing::Command command(line(
        "tune --num-gpus 2 --steps 2-200000" + std::string(net) +
        "--global-batch-size 8 --train-iters 1000000"));
    // Until a log of an experiment shows that its ranks train.
    for (int i = 0; i < 400; ++i) {
      bool trains = false;
      for (const auto& entry :
           fs::recursive_directory_iterator(folder_.path())) {
        trains |= entry.path().filename() == "log.jsonl" &&
            testing::read_text(entry.path()).find("lm loss") !=
                std::string::npos;
      }
      if (trains) {
        break;
      }
      ::usleep(50'000);
    }
    EXPECT_GT(command.living().size(), 3U) << "the launcher and two ranks";
    command.send(signal);
    const Result result = command.finish();
    EXPECT_EQ(result.code, 128 + signal) << result.err;
    EXPECT_THAT(result.err, HasSubstr("stopped"));
    command.expect_nothing_left();
    EXPECT_THAT(files(), IsEmpty());
  }
}

TEST_F(Tune, SaysWhyNothingFits) {
  folder_.write("tiny.json", R"({
    "name": "tiny", "about": "too small", "gpus_per_node": 2, "nodes": 1,
    "gpu": {"name": "tiny", "memory_gb": 0.7, "tflops": 1, "tflops_32bit": 1,
            "bandwidth_gb_per_s": 10, "matmul_share": 0.5},
    "host": {"memory_gb": 2, "copy_gb_per_s": 1, "adam_billion_per_s": 0.1},
    "levels": [{"name": "bus", "ranks": 2, "gb_per_s": 1, "microseconds": 9}]
  })");
  const Result result = run(
      "tune --num-gpus 2 --cluster tiny.json gpt --num-layers 8 --hidden-size "
      "1024 --num-attention-heads 16 --seq-length 64 --vocab-size 5000 "
      "--tokenizer-type NullTokenizer --mock-data --lr 1e-3 "
      "--global-batch-size 2");
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(
      result.err,
      AllOf(HasSubstr("no candidate fits. The nearest is "), HasSubstr(" GB")));
  EXPECT_THAT(files(), ElementsAre("tiny.json"));
}

TEST_F(Tune, TakesRunningOutOfMemoryAsAResult) {
  // The planner is told of a machine with much more memory than the limit.
  folder_.write("large.json", R"({
    "name": "large", "about": "so they say", "gpus_per_node": 1, "nodes": 1,
    "gpu": {"name": "large", "memory_gb": 999999, "tflops": 1,
            "tflops_32bit": 1, "bandwidth_gb_per_s": 10, "matmul_share": 0.5},
    "host": {"memory_gb": 9, "copy_gb_per_s": 1, "adam_billion_per_s": 0.1},
    "levels": [{"name": "bus", "ranks": 1, "gb_per_s": 1, "microseconds": 9}]
  })");
  const Result result = testing::run(
      {"bash",
       "-c",
       "cd '" + folder_.path().string() +
           "'; ulimit -v 6000000; exec '" CAIRN_BINARY_DIR
           "/bin/cairn' tune --num-gpus 1 --cluster large.json --trials 2 "
           "--steps 2-2 --vary micro-batch" +
           net + "--micro-batch-size 1048576"});
  ASSERT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_THAT(
      statuses(json("autotuning_results/results.json")),
      ElementsAre("out of memory", "measured"));
  EXPECT_THAT(result.out, HasSubstr("as given: out of memory"));
}

TEST_F(Tune, FollowsDeepSpeedsSection) {
  folder_.write("ds.json", R"({
    "train_micro_batch_size_per_gpu": "auto",
    "zero_optimization": {"overlap_comm": true},
    "tensorboard": {"enabled": true, "output_path": "events"},
    "autotuning": {
      "enabled": true, "metric": "latency", "start_profile_step": 2,
      "end_profile_step": 3, "results_dir": "out", "exps_dir": "exps",
      "overwrite": false, "max_train_batch_size": 8,
      "min_train_micro_batch_size_per_gpu": 2,
      "max_train_micro_batch_size_per_gpu": 4,
      "num_tuning_micro_batch_sizes": 1, "tuner_num_trials": 1,
      "arg_mappings": {"train_micro_batch_size_per_gpu": "--batch"}}})");
  const std::string command = "launch --num_gpus 2 --autotuning tune pretrain" +
      std::string(net) + "--deepspeed_config ds.json --train-iters 10";
  const Result result = run(command);
  ASSERT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_THAT(files(), ElementsAre("ds.json", "exps", "out"));
  const Json results = json("out/results.json");
  std::set<int> stages;
  for (const Json& trial : results["trials"]) {
    const Json& deepspeed = trial["run"]["deepspeed"];
    const int micro = deepspeed["train_micro_batch_size_per_gpu"];
    EXPECT_FALSE(deepspeed.contains("autotuning"));
    EXPECT_TRUE(deepspeed["zero_optimization"]["overlap_comm"]);
    EXPECT_EQ(trial["metric"], -trial["step_seconds"].get<double>());
    if (&trial != &results["trials"].front()) { // that one is as given
      EXPECT_GE(micro, 2);
      EXPECT_LE(micro, 4);
      EXPECT_TRUE(
          stages.insert(deepspeed["zero_optimization"]["stage"].get<int>())
              .second)
          << "one trial of a stage";
    }
  }
  EXPECT_THAT(stages, ElementsAre(1, 2, 3)) << "stage 0 is the given one's";

  // With overwrite off its experiments are not repeated.
  const Result again = run(command);
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(json("out/results.json"), results);
}

TEST_F(Tune, OfTheLauncherTrainsAfterwards) {
  const Result result =
      run("launch --num_gpus 2 --autotuning=run pretrain" + std::string(net) +
          "--global-batch-size 4 --micro-batch-size 1 --zero-stage 1 "
          "--train-iters 4 --eval-iters 0");
  ASSERT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_THAT(
      result.out + result.err,
      AllOf(HasSubstr("best: "), HasSubstr("the training is done")));
}

TEST_F(Tune, VariesContextAndExpertDegreesThatItIsToldTo) {
  const Result result = run(
      "tune --num-gpus 2 --steps 2-3 --vary context,expert" + std::string(net) +
      "--num-experts 2 --global-batch-size 4 --micro-batch-size 1");
  ASSERT_EQ(result.code, 0) << result.out << result.err;
  const Json results = json("autotuning_results/results.json");
  EXPECT_THAT(statuses(results), Each("measured"));
  std::set<std::string> settings;
  for (const Json& trial : results["trials"]) {
    settings.insert(trial["settings"]);
  }
  EXPECT_THAT(
      settings,
      ::testing::IsSupersetOf(
          {"ZeRO 0, micro batch 1 x 2",
           "TP 1 PP 1 DP 2 EP 2, ZeRO 0, micro batch 1 x 2",
           "TP 1 PP 1 DP 1 CP 2, ZeRO 0, micro batch 1 x 4"}));
}

/// A program of one's own, of which only the JSON is known.
TEST_F(Tune, TriesOutAnyProgramWithAConfiguration) {
  folder_.write(
      "ds.json",
      R"({"train_batch_size": 16, "optimizer": {"type": "AdamW"},
          "autotuning": {"enabled": true, "start_profile_step": 2,
                         "end_profile_step": 4, "tuner_num_trials": 1}})");
  testing::Command command(
      line("launch --num_gpus 2 --autotuning tune '" CAIRN_BINARY_DIR
           "/bin/any_stage_example' --deepspeed_config ds.json"));
  const Result result = command.finish();
  ASSERT_EQ(result.code, 0) << result.out << result.err;
  command.expect_nothing_left();
  EXPECT_THAT(files(), ElementsAre("autotuning_results", "ds.json"));
  const Json results = json("autotuning_results/results.json");
  EXPECT_EQ(results["trials"].size(), 4U) << "one for each stage";
  EXPECT_THAT(statuses(results), Each("measured"));
  for (const Json& trial : results["trials"]) {
    EXPECT_NEAR(
        trial["samples_per_second"].get<double>() *
            trial["step_seconds"].get<double>(),
        16,
        1e-6);
    EXPECT_GT(trial["memory_bytes"], 0);
  }
  const Json best = json("autotuning_results/best.json");
  EXPECT_EQ(
      best,
      results["trials"][results["best"].get<std::size_t>()]["run"]
             ["deepspeed"]);
  EXPECT_FALSE(best.contains("autotuning"));
  EXPECT_THAT(
      testing::read_text(folder_.path() / "autotuning_results/best.sh"),
      AllOf(
          HasSubstr("any_stage_example"),
          HasSubstr("--deepspeed_config autotuning_results/best.json")));
}

TEST_F(Tune, OfItsPageWorksAsPrinted) {
  folder_.write(
      "ds.json",
      testing::blocks_of(CAIRN_SOURCE_DIR "/docs/tuning.md", "json").at(0));
  const auto blocks =
      testing::blocks_of(CAIRN_SOURCE_DIR "/docs/tuning.md", "sh");
  ASSERT_EQ(blocks.size(), 2U);
  for (const std::string& block : blocks) {
    const Result result = testing::run(
        {"bash",
         "-ec",
         "cd '" + folder_.path().string() +
             "'; export PATH='" CAIRN_BINARY_DIR "/bin':$PATH\n" + block});
    EXPECT_EQ(result.code, 0) << block << result.err;
    EXPECT_THAT(result.out, HasSubstr("\nbest: ZeRO ")) << block;
  }
}

TEST_F(Tune, RefusesWhatMakesNoSense) {
  for (const auto& [words, error] :
       {std::pair{
            "tune --vary micro-bath" + std::string(net),
            "did you mean \"micro-batch\"?"},
        std::pair{
            "tune --steps 5-3" + std::string(net),
            "the last step comes before the first one"},
        std::pair{
            "tune --metric speed" + std::string(net),
            "choose throughput, latency or flops"},
        std::pair{
            std::string("tune gtp --lr 1"),
            "\"gtp\" is no model that is tuned"},
        std::pair{
            std::string("launch --autotuning tune echo hello"),
            "\"echo\" is no model that is tuned, and as a program"}}) {
    const Result result = run(words);
    EXPECT_EQ(result.code, 2) << words;
    EXPECT_THAT(result.err, HasSubstr(error));
  }
  folder_.write("ds.json", R"({"autotuning": {"enabled": false}})");
  const Result result = run("tune ds.json" + std::string(net));
  EXPECT_THAT(result.err, HasSubstr("is false, but tuning is asked for"));
  EXPECT_THAT(files(), ElementsAre("ds.json"));
}

} // namespace
} // namespace cairn::cli::tune_test
