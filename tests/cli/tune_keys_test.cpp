// The keys of DeepSpeed's section `autotuning`, each in a search. The tuned
// program is a script that states the speed of its settings: a search over it
// takes no training, and its best settings are known.

#include "tune_fixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace cairn::cli::tune_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Result;
using Json = nlohmann::json;

/// The micro batch, the ZeRO stage and the bucket of an experiment, and the
/// samples a second that rank 0 claims for them. `speed` is a calculation of
/// the shell.
std::string script(const std::string& speed, const std::string& before = "") {
  return R"(#!/bin/sh
words="$*"
while [ "$1" != --deepspeed_config ]; do shift; done
number() { grep -o "\"$1\":[0-9]*" "$file" | head -n 1 | tr -dc 0-9; }
file=$2
micro=$(number train_micro_batch_size_per_gpu)
stage=$(number stage)
bucket=$(number reduce_bucket_size)
[ "${RANK:-0}" = 0 ] || exit 0
echo "$words" >> words.txt
)" + before +
      "\nspeed=$((" + speed + R"())
out=${CAIRN_TUNING_METRIC#*:}
echo "{\"latency\": 1000, \"throughput\": $speed, \"memory_bytes\": 1}" > "$out.new"
mv "$out.new" "$out"
)";
}

class TuneKeys : public Tune {
 protected:
  /// Tunes the script on two ranks with these settings, whose `autotuning` is
  /// enabled.
  Result tune_script(
      Json settings,
      const std::string& speed,
      const std::string& more = "",
      const std::string& before = "") {
    settings["autotuning"]["enabled"] = true;
    folder_.write("ds.json", settings.dump());
    folder_.write("train.sh", script(speed, before));
    return run(
        "launch --num_gpus 2 --autotuning tune sh train.sh "
        "--deepspeed_config ds.json " +
        more);
  }
  std::vector<std::string> settings() const {
    return texts_of(json("autotuning_results/results.json"), "settings");
  }
  std::string best() const {
    const Json results = json("autotuning_results/results.json");
    return results["trials"][results["best"].get<std::size_t>()]["settings"];
  }
};

TEST_F(TuneKeys, ListsOfValuesAreTheSearch) {
  const Result result = tune_script(
      {{"train_micro_batch_size_per_gpu", {1, 4, 16}},
       {"gradient_accumulation_steps", 2},
       {"zero_optimization", {{"stage", {2, 3}}}}},
      "100 * micro + stage");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(
      settings(),
      ElementsAre(
          "ZeRO 2, micro batch 1 x 2",
          "ZeRO 2, micro batch 4 x 2",
          "ZeRO 2, micro batch 16 x 2",
          "ZeRO 3, micro batch 1 x 2",
          "ZeRO 3, micro batch 4 x 2",
          "ZeRO 3, micro batch 16 x 2"));
  EXPECT_EQ(best(), "ZeRO 3, micro batch 16 x 2");
  const Json chosen = json("autotuning_results/best.json");
  EXPECT_EQ(chosen["train_batch_size"], 64);
  EXPECT_EQ(chosen["zero_optimization"]["stage"], 3);
}

TEST_F(TuneKeys, StagesMayBeAll) {
  for (const Json& all : {Json("all"), Json{{"stage", "all"}}}) {
    const Result result = tune_script(
        {{"train_micro_batch_size_per_gpu", {4}}, {"zero_optimization", all}},
        "stage * (3 - stage) + 1");
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(
        settings(),
        ElementsAre(
            "ZeRO 0, micro batch 4",
            "ZeRO 1, micro batch 4",
            "ZeRO 2, micro batch 4",
            "ZeRO 3, micro batch 4"));
    EXPECT_EQ(best(), "ZeRO 1, micro batch 4");
  }
}

TEST_F(TuneKeys, BucketListsAreTriedUnlessTheSearchIsFast) {
  Json settings{
      {"train_micro_batch_size_per_gpu", {2}},
      {"zero_optimization",
       {{"stage", 2},
        {"reduce_bucket_size", {50000, 70000}},
        {"overlap_comm", {false, true}}}},
      {"autotuning", {{"fast", true}}}};
  const Result fast = tune_script(settings, "bucket");
  ASSERT_EQ(fast.code, 0) << fast.err;
  EXPECT_THAT(
      fast.err,
      HasSubstr("of zero_optimization.reduce_bucket_size only 50000 is tried"));
  EXPECT_THAT(this->settings(), ElementsAre("ZeRO 2, micro batch 2"));
  settings["autotuning"]["fast"] = false;
  const Result all = tune_script(settings, "bucket");
  ASSERT_EQ(all.code, 0) << all.err;
  EXPECT_THAT(
      this->settings(),
      ElementsAre(
          "ZeRO 2, micro batch 2",
          "ZeRO 2, micro batch 2, overlap_comm false, reduce_bucket_size 70000",
          "ZeRO 2, micro batch 2, overlap_comm true, reduce_bucket_size 50000",
          "ZeRO 2, micro batch 2, overlap_comm true, reduce_bucket_size "
          "70000"));
  const Json zero = json("autotuning_results/best.json")["zero_optimization"];
  EXPECT_EQ(zero["reduce_bucket_size"], 70000);
  EXPECT_EQ(zero["overlap_comm"], false);
}

TEST_F(TuneKeys, RefusesListsThatAreNone) {
  for (const auto& [settings, error] :
       {std::pair{
            Json{{"train_micro_batch_size_per_gpu", {1, "two"}}},
            "whole numbers from 1 to "},
        std::pair{
            Json{{"train_micro_batch_size_per_gpu", Json::array()}},
            "a list to tune is empty"},
        std::pair{
            Json{{"zero_optimization", {{"stage", {2, 4}}}}},
            "whole numbers from 0 to 3"},
        std::pair{
            Json{{"zero_optimization", {{"reduce_bucket_size", {{1}}}}}},
            "numbers, or true and false"}}) {
    const Result result = tune_script(settings, "1");
    EXPECT_EQ(result.code, 2) << settings;
    EXPECT_THAT(result.err, AllOf(HasSubstr(error), HasSubstr("ds.json: ")));
  }
}

TEST_F(TuneKeys, ANumberIsTheSmallestMicroBatch) {
  const Json settings{
      {"train_micro_batch_size_per_gpu", 3},
      {"zero_optimization", {{"stage", 1}}},
      {"autotuning",
       {{"max_train_micro_batch_size_per_gpu", 16},
        {"num_tuning_micro_batch_sizes", 9}}}};
  const Result result = tune_script(settings, "micro");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(
      this->settings(),
      ElementsAre(
          "ZeRO 1, micro batch 3",
          "ZeRO 1, micro batch 6",
          "ZeRO 1, micro batch 12"));
  // If it runs out of memory, smaller ones are tried.
  const std::string fails =
      "if [ \"$micro\" -ge 3 ]; then echo out of memory; exit 1; fi";
  const Result smaller = tune_script(settings, "micro", "", fails);
  ASSERT_EQ(smaller.code, 0) << smaller.err;
  EXPECT_EQ(best(), "ZeRO 1, micro batch 2");
  EXPECT_THAT(
      statuses(json("autotuning_results/results.json")),
      ElementsAre("out of memory", "measured", "measured"));
}

TEST_F(TuneKeys, TunersOrderTheExperiments) {
  const auto order = [&](const std::string& type) {
    const Result result = tune_script(
        {{"train_micro_batch_size_per_gpu", {1, 2, 4}},
         {"zero_optimization", {{"stage", {1, 2, 3}}}},
         {"autotuning", {{"tuner_type", type}}}},
        "micro");
    EXPECT_EQ(result.code, 0) << result.err;
    return settings();
  };
  const auto grid = order("gridsearch");
  ASSERT_EQ(grid.size(), 9U);
  EXPECT_TRUE(std::ranges::is_sorted(grid));
  const auto shuffled = order("random");
  EXPECT_THAT(shuffled, ::testing::UnorderedElementsAreArray(grid));
  EXPECT_NE(shuffled, grid);
  EXPECT_EQ(order("random"), shuffled) << "it can be repeated";
}

TEST_F(TuneKeys, TheModelBasedTunerFollowsThePlan) {
  folder_.write(
      "ds.json",
      R"({"train_batch_size": 16,
          "zero_optimization": {"stage": 1},
          "autotuning": {"enabled": true, "tuner_type": "model_based",
            "start_profile_step": 2, "end_profile_step": 2,
            "tuner_num_trials": 4}})");
  const Result result = run("tune --num-gpus 2 ds.json" + std::string(net));
  ASSERT_EQ(result.code, 0) << result.err;
  const Json trials = json("autotuning_results/results.json")["trials"];
  ASSERT_GE(trials.size(), 3U);
  std::vector<double> planned;
  for (std::size_t i = 1; i < trials.size(); ++i) { // the first is as given
    planned.push_back(trials[i]["planned"]["step_seconds"]);
  }
  EXPECT_TRUE(std::ranges::is_sorted(planned)) << trials;
}

TEST_F(TuneKeys, StopsEarlyWithoutGain) {
  const Result result = tune_script(
      {{"train_micro_batch_size_per_gpu", {1, 2, 4, 8, 16}},
       {"zero_optimization", {{"stage", {1, 2}}}},
       {"autotuning", {{"tuner_early_stopping", 2}}}},
      "1000 / micro / stage");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(
      settings(),
      ElementsAre(
          "ZeRO 1, micro batch 1",
          "ZeRO 1, micro batch 2",
          "ZeRO 1, micro batch 4",
          "ZeRO 2, micro batch 1",
          "ZeRO 2, micro batch 2"))
      << "two without gain in each stage";
}

TEST_F(TuneKeys, LimitsTheBatch) {
  const Result result = tune_script(
      {{"gradient_accumulation_steps", 3},
       {"zero_optimization", {{"stage", 1}}},
       {"autotuning",
        {{"min_train_batch_size", 12},
         {"max_train_batch_size", 24},
         {"num_tuning_micro_batch_sizes", 9}}}},
      "micro");
  ASSERT_EQ(result.code, 0) << result.err;
  std::set<int> batches;
  const Json results = json("autotuning_results/results.json");
  for (const Json& trial : results["trials"]) {
    batches.insert(trial["run"]["deepspeed"]["train_batch_size"].get<int>());
  }
  EXPECT_THAT(batches, ElementsAre(6, 12, 24)) << "6 is as given";
}

TEST_F(TuneKeys, RanksOfAProgramMayShareTheModel) {
  const Result result = tune_script(
      {{"train_micro_batch_size_per_gpu", {1, 2}},
       {"autotuning", {{"mp_size", 2}}}},
      "micro");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(json("autotuning_results/best.json")["train_batch_size"], 2)
      << "two ranks are one copy of the model";
  const Result odd = tune_script(
      {{"train_micro_batch_size_per_gpu", 1}, {"autotuning", {{"mp_size", 3}}}},
      "1");
  EXPECT_EQ(odd.code, 2);
  EXPECT_THAT(odd.err, HasSubstr("2 ranks are no multiple of the 3"));
}

TEST_F(TuneKeys, LayoutsOfOurModelsHaveTheModelSize) {
  folder_.write(
      "ds.json",
      R"({"train_batch_size": 4, "zero_optimization": {"stage": 0},
          "autotuning": {"enabled": true, "fast": false, "mp_size": 2,
            "start_profile_step": 2, "end_profile_step": 2,
            "tuner_num_trials": 3}})");
  const Result result = run("tune --num-gpus 2 ds.json" + std::string(net));
  ASSERT_EQ(result.code, 0) << result.err;
  const auto tried = settings();
  EXPECT_EQ(tried.size(), 3U);
  EXPECT_THAT(tried[1], HasSubstr("DP 1"));
  EXPECT_THAT(tried[2], HasSubstr("DP 1")) << "fast is off: layouts vary";
}

TEST_F(TuneKeys, ArgumentsOfAProgramFollowTheKeys) {
  const Result result = tune_script(
      {{"train_micro_batch_size_per_gpu", "auto"},
       {"gradient_accumulation_steps", "auto"},
       {"zero_optimization", {{"stage", 0}}},
       {"autotuning",
        {{"max_train_micro_batch_size_per_gpu", 8},
         {"arg_mappings",
          {{"train_micro_batch_size_per_gpu", "--batch"},
           {"gradient_accumulation_steps ", "--accumulate"}}}}}},
      "micro",
      "--batch 4 --epochs 7");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(
      settings(),
      ElementsAre("ZeRO 0, micro batch 4", "ZeRO 0, micro batch 8"))
      << "4, from the arguments, is the smallest";
  const std::string words = testing::read_text(folder_.path() / "words.txt");
  EXPECT_THAT(
      words,
      AllOf(
          HasSubstr("--batch 4 --epochs 7 --accumulate 1 "),
          HasSubstr("--batch 8 --epochs 7 --accumulate 1 ")));
  EXPECT_THAT(
      testing::read_text(folder_.path() / "autotuning_results/best.sh"),
      HasSubstr("--batch 8"));
}

TEST_F(TuneKeys, WhatIsTooLargeByTheModelsSizeIsNotTried) {
  folder_.write("tiny.json", R"({
    "name": "tiny", "about": "1 GB", "gpus_per_node": 2, "nodes": 1,
    "gpu": {"name": "tiny", "memory_gb": 1, "tflops": 1, "tflops_32bit": 1,
            "bandwidth_gb_per_s": 10, "matmul_share": 0.5},
    "host": {"memory_gb": 2, "copy_gb_per_s": 1, "adam_billion_per_s": 0.1},
    "levels": [{"name": "bus", "ranks": 2, "gb_per_s": 1, "microseconds": 9}]
  })");
  folder_.write("train.sh", script("100 - micro"));
  const auto tune = [&](const Json& section) {
    Json all = section;
    all["enabled"] = true;
    folder_.write(
        "ds.json",
        Json{
            {"train_micro_batch_size_per_gpu", {1, 4}},
            {"zero_optimization", {{"stage", "all"}}},
            {"autotuning", all}}
            .dump());
    return run("tune --num-gpus 2 --cluster tiny.json sh train.sh "
               "--deepspeed_config ds.json");
  };
  // 16 bytes a parameter: 1.44, 1.08, 0.9 and 0.72 GB by stage.
  const Result result = tune({{"model_info", {{"num_params", 90'000'000}}}});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(
      settings(),
      ElementsAre(
          "ZeRO 2, micro batch 1",
          "ZeRO 2, micro batch 4",
          "ZeRO 3, micro batch 1",
          "ZeRO 3, micro batch 4"));
  EXPECT_THAT(result.out, HasSubstr("4 too large by plan"));
  // As DeepSpeed writes it, with activations.
  folder_.write(
      "info.json",
      R"({"num_params": 90000000, "trainable_num_params": 90000000,
          "activation_mem_per_gpu": 80000000, "rank": 0})");
  const Result file = tune({{"model_info_path", "info.json"}});
  ASSERT_EQ(file.code, 0) << file.err;
  EXPECT_THAT(
      settings(),
      ElementsAre("ZeRO 2, micro batch 1", "ZeRO 3, micro batch 1"));
  const Result none = tune({{"model_info", {{"num_params", 900'000'000}}}});
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(
      none.err,
      HasSubstr("a rank needs 7.2 GB at least, and has 1.0 GB"));
  folder_.write("info.json", "{}");
  EXPECT_THAT(
      tune({{"model_info_path", "info.json"}}).err,
      HasSubstr("does not say how large the model is"));
}

TEST_F(TuneKeys, TheMetricOfTheBestIsWrittenWhereItIsAskedFor) {
  const Result result = tune_script(
      {{"train_micro_batch_size_per_gpu", {1, 4}},
       {"zero_optimization", {{"stage", 0}}},
       {"autotuning", {{"metric_path", "made/metric.json"}}}},
      "micro");
  ASSERT_EQ(result.code, 0) << result.err;
  const Json metric = json("made/metric.json");
  EXPECT_EQ(metric["latency"], 1000);
  EXPECT_EQ(metric["throughput"], 8) << "4 on each of two ranks";
}

/// As DeepSpeed's engine does when nobody tunes; but the training goes on.
TEST_F(TuneKeys, AnyTrainingWritesItsMetric) {
  folder_.write(
      "ds.json",
      R"({"train_batch_size": 16, "optimizer": {"type": "AdamW"},
          "autotuning": {"enabled": true, "metric_path": "metric.json",
                         "start_profile_step": 2, "end_profile_step": 4}})");
  const Result result =
      run("launch --num_gpus 2 '" CAIRN_BINARY_DIR
          "/bin/any_stage_example' --deepspeed_config ds.json");
  ASSERT_EQ(result.code, 0) << result.err;
  const Json metric = json("metric.json");
  EXPECT_NEAR(
      metric["throughput"].get<double>() * metric["latency"].get<double>(),
      16e3,
      1e-6)
      << "samples a second, milliseconds of an update";
  EXPECT_GT(metric["memory_bytes"], 0);
  EXPECT_THAT(
      result.out + result.err,
      HasSubstr("the metric of updates 2 to 4 is in metric.json"));
}

TEST_F(TuneKeys, OperationsAreComparedWhereTheyAreKnown) {
  const Result program = tune_script(
      {{"train_micro_batch_size_per_gpu", {1}},
       {"autotuning", {{"metric", "flops"}}}},
      "1");
  EXPECT_EQ(program.code, 2);
  EXPECT_THAT(
      program.err,
      AllOf(
          HasSubstr("the operations of an update are not known"),
          HasSubstr("throughput")));
  const Result ours =
      run("tune --num-gpus 2 --trials 2 --steps 2-2 --metric flops" +
          std::string(net) + "--global-batch-size 4 --zero-stage 0");
  ASSERT_EQ(ours.code, 0) << ours.err;
  const Json results = json("autotuning_results/results.json");
  for (const Json& trial : results["trials"]) {
    // TFLOP/s of a rank, of a net of 45 thousand parameters.
    const double operations = trial["metric"].get<double>() * 1e12 * 2 *
        trial["step_seconds"].get<double>();
    EXPECT_GT(operations, 6 * 25e3 * 4 * 32);
    EXPECT_LT(operations, 6 * 100e3 * 4 * 32);
  }
}

TEST_F(TuneKeys, SaysWhatOurModelsDoNotNeed) {
  folder_.write(
      "ds.json",
      R"({"train_micro_batch_size_per_gpu": [1],
          "zero_optimization": {"stage": 0},
          "autotuning": {"enabled": true, "start_profile_step": 1,
            "end_profile_step": 1, "model_info": {"num_params": 5},
            "arg_mappings": {"train_micro_batch_size_per_gpu": "--batch"}}})");
  const Result result = run("tune --num-gpus 1 ds.json" + std::string(net));
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(
      result.err,
      AllOf(
          HasSubstr("arg_mappings is not needed"),
          HasSubstr("model_info is not needed")));
}

} // namespace
} // namespace cairn::cli::tune_test
