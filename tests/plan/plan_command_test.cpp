// `cairn plan` and `cairn memory`, run as a user would.

#include "support/command.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <set>
#include <sstream>
#include <string>
#include <utility>

namespace cairn::plan::command_test {
namespace {

using ::testing::HasSubstr;
using testing::Result;
using testing::TemporaryFolder;
using testing::Words;
using Json = nlohmann::json;

Words cairn(const std::string& command, const Words& more) {
  Words words{CAIRN_BINARY_DIR "/bin/cairn", command};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// The flags of a GPT with heads of 128 that reads 2,048 tokens.
Words gpt(int layers, int heads, int vocabulary, const Words& more) {
  constexpr int head_size = 128;
  return with(
      {"--num-layers",
       std::to_string(layers),
       "--hidden-size",
       std::to_string(head_size * heads),
       "--num-attention-heads",
       std::to_string(heads),
       "--seq-length",
       "2048",
       "--vocab-size",
       std::to_string(vocabulary)},
      more);
}

Words gpt3() {
  const Words run{
      "--fp16",
      "--cluster",
      "selene-a100",
      "--num-gpus",
      "1024",
      "--global-batch-size",
      "1536"};
  return with({"gpt"}, gpt(96, 96, 51200, run));
}

/// A GPT of 1.3 billion parameters.
Words small_gpt(const Words& more) {
  return gpt(24, 16, 50257, with({"--global-batch-size", "256"}, more));
}

TEST(PlanCommand, EstimatesTheLayoutThatFlagsGive) {
  const Result result = testing::run(cairn(
      "plan",
      with(
          gpt3(),
          {"--tensor-model-parallel-size",
           "8",
           "--pipeline-model-parallel-size",
           "16",
           "--micro-batch-size",
           "1",
           "--zero-stage",
           "1",
           "--checkpoint-activations",
           "--json"})));
  ASSERT_EQ(result.code, 0) << result.err;
  const Json json = Json::parse(result.out);
  ASSERT_EQ(json.size(), 1U);
  const Json& layout = json[0];
  EXPECT_TRUE(layout.at("fits").get<bool>());
  for (const char* key :
       {"iteration_seconds",
        "tokens_per_second_per_gpu",
        "model_tflops_per_gpu",
        "hardware_tflops_per_gpu"}) {
    EXPECT_GT(layout.at(key).get<double>(), 0) << key;
  }
  double sum = 0;
  for (const auto& [name, bytes] : layout.at("memory_bytes_per_rank").items()) {
    sum += name == "total" ? 0 : bytes.get<double>();
  }
  EXPECT_NEAR(
      sum,
      layout.at("memory_bytes_per_rank").at("total").get<double>(),
      1e3);
}

TEST(PlanCommand, SearchesAndWritesTheBest) {
  const TemporaryFolder folder;
  const Words model = small_gpt({"--cluster", "dgx-h100", "--num-gpus", "8"});
  const std::string best = (folder / "best").string();
  const Result result = testing::run(cairn(
      "plan",
      with(
          model,
          {"--write",
           best,
           "--html",
           (folder / "page.html").string(),
           "--simulate",
           (folder / "trace.json").string(),
           "--tokens",
           "26e9"})));
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("MFU"));
  EXPECT_THAT(result.out, HasSubstr("GPU hours"));
  EXPECT_THAT(testing::read_text(folder / "page.html"), HasSubstr("Timeline"));
  const Json trace = Json::parse(testing::read_text(folder / "trace.json"));
  EXPECT_GT(trace.at("traceEvents").size(), 2U);
  // What was written is a plan of its own, and the same one.
  const Result again = testing::run(cairn(
      "plan",
      {"@" + best + "/flags",
       "--cluster",
       "dgx-h100",
       "--num-gpus",
       "8",
       "--json"}));
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(Json::parse(again.out).size(), 1U);
  const Result searched =
      testing::run(cairn("plan", with(model, {"--json", "--top", "3"})));
  ASSERT_EQ(searched.code, 0) << searched.err;
  const Json all = Json::parse(searched.out);
  EXPECT_EQ(all.size(), 3U);
  EXPECT_NEAR(
      all[0].at("iteration_seconds").get<double>(),
      Json::parse(again.out)[0].at("iteration_seconds").get<double>(),
      1e-9);
  EXPECT_EQ(testing::run({"/bin/bash", "-n", best + "/launch.sh"}).code, 0);
  // So is a layout that is given rather than found.
  const std::string copy = (folder / "copy").string();
  ASSERT_EQ(
      testing::run(cairn(
                       "plan",
                       {"@" + best + "/flags",
                        "--cluster",
                        "dgx-h100",
                        "--num-gpus",
                        "8",
                        "--write",
                        copy}))
          .code,
      0);
  const Result third = testing::run(cairn(
      "plan",
      {"@" + copy + "/flags",
       "--cluster",
       "dgx-h100",
       "--num-gpus",
       "8",
       "--json"}));
  EXPECT_EQ(third.out, again.out) << third.err;
}

// What is given is only where a search begins: the written plan must not say
// both.
TEST(PlanCommand, WritesNothingThatContradictsTheLayout) {
  const TemporaryFolder folder;
  const auto written = [&](const Words& more) {
    const std::string best = (folder / "best").string();
    const Words cluster{"--cluster", "dgx-h100", "--num-gpus", "8", "--json"};
    const Result found = testing::run(cairn(
        "plan",
        with(
            small_gpt(
                {"--recompute-granularity",
                 "full",
                 "--recompute-method",
                 "block",
                 "--recompute-num-layers=2",
                 "--use-distributed-optimizer",
                 "--deepspeed_config",
                 (folder / "given.json").string(),
                 "--write",
                 best}),
            with(cluster, more))));
    EXPECT_EQ(found.code, 0) << found.err;
    const Result again =
        testing::run(cairn("plan", with({"@" + best + "/flags"}, cluster)));
    EXPECT_EQ(again.code, 0) << again.err;
    const Json plan = Json::parse(found.out)[0];
    const Json same = Json::parse(again.out)[0];
    for (const char* key :
         {"zero_stage", "recompute", "offload_optimizer", "offload_param"}) {
      EXPECT_EQ(same.at(key), plan.at(key)) << key;
    }
    return Json::parse(testing::read_text(best + "/ds.json"))
        .at("zero_optimization");
  };
  folder.write("given.json", R"({"bf16": {"enabled": true},
      "zero_optimization": {"stage": 3,
        "offload_optimizer": {"device": "nvme", "nvme_path": "/fast"},
        "offload_param": {"device": "cpu"}}})");
  const Json small = written({});
  EXPECT_FALSE(small.contains("offload_optimizer")) << small;
  EXPECT_FALSE(small.contains("offload_param")) << small;
  const Json given = written({"--micro-batch-size", "1"});
  EXPECT_EQ(given.at("offload_optimizer").at("nvme_path"), "/fast");
  EXPECT_THAT(
      testing::read_text(folder / "best/flags"),
      HasSubstr("--recompute-num-layers=2"));
}

TEST(PlanCommand, SaysWhatDoesNotFitAndTheRemedy) {
  const Result result = testing::run(cairn(
      "plan",
      gpt(40,
          40,
          50257,
          {"--micro-batch-size",
           "1",
           "--global-batch-size",
           "64",
           "--cluster",
           "dgx-h100",
           "--num-gpus",
           "16"})));
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, HasSubstr("It does not fit: a GPU needs"));
  EXPECT_THAT(
      result.out,
      HasSubstr("The cheapest change that makes it fit: --zero"));
}

TEST(PlanCommand, CountsTwentyTokensOfAParameterUnlessTheyAreSaid) {
  const auto tokens = [](const Words& more) {
    const Result result = testing::run(cairn(
        "plan",
        small_gpt(with(
            {"--cluster",
             "h200",
             "--num-gpus",
             "1",
             "--micro-batch-size",
             "1",
             "--json"},
            more))));
    const Json plan = Json::parse(result.out)[0];
    const double days = plan.at("run_days");
    EXPECT_NEAR(
        plan.at("run_tokens").get<double>() /
            plan.at("tokens_per_second_per_gpu").get<double>() / 86400 / days,
        1,
        1e-9);
    return std::pair(
        plan.at("run_tokens").get<double>(),
        plan.at("parameters").get<double>());
  };
  const auto [assumed, parameters] = tokens({});
  EXPECT_NEAR(assumed / parameters, 20, 0.1) << "padding is no parameter";
  EXPECT_EQ(tokens({"--train-iters", "10"}).first, 10 * 256 * 2048.0);
  EXPECT_EQ(tokens({"--train-samples", "10"}).first, 10 * 2048.0);
  EXPECT_EQ(tokens({"--tokens", "5e9"}).first, 5e9);
}

TEST(PlanCommand, ShowsEveryLayoutsMemoryAndTheNearestThatDoNotFit) {
  const Result result = testing::run(cairn(
      "plan",
      gpt(40,
          40,
          50257,
          {"--global-batch-size",
           "256",
           "--cluster",
           "dgx-h100",
           "--num-gpus",
           "16",
           "--top",
           "3"})));
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\n 3. TP "));
  EXPECT_THAT(result.out, HasSubstr("memory of a GPU, GB    1.    2.    3."));
  EXPECT_THAT(result.out, HasSubstr("of those that do not fit, the nearest:"));
  EXPECT_THAT(result.out, HasSubstr(": a GPU needs "));
}

TEST(PlanCommand, OfASearchWithoutResultSaysWhatWouldHelp) {
  const Words model =
      gpt(40,
          40,
          50257,
          {"--global-batch-size", "64", "--cluster", "dgx2-v100"});
  const Result result = testing::run(cairn(
      "plan",
      with(
          model,
          {"--num-gpus",
           "4",
           "--zero-stage",
           "0",
           "--tensor-model-parallel-size",
           "1",
           "--pipeline-model-parallel-size",
           "1"})));
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, HasSubstr("No layout fits."));
  EXPECT_THAT(result.out, HasSubstr(": a GPU needs "));
  EXPECT_THAT(result.out, HasSubstr("The cheapest change that makes it fit: "));
}

// 10 billion parameters on one H200: a part of the states leaves the GPU, and
// what is written says so.
TEST(PlanCommand, WritesThePartThatIsOffloaded) {
  const TemporaryFolder folder;
  const std::string best = (folder / "best").string();
  const Words cluster{"--cluster", "h200", "--num-gpus", "1", "--json"};
  const Result found = testing::run(cairn(
      "plan",
      with(
          gpt(50, 32, 50257, {"--global-batch-size", "8", "--write", best}),
          cluster)));
  ASSERT_EQ(found.code, 0) << found.err;
  const Json plan = Json::parse(found.out)[0];
  const double ratio = plan.at("offload_ratio");
  EXPECT_GT(ratio, 0);
  EXPECT_LT(ratio, 1);
  EXPECT_THAT(
      plan.at("flags").get<std::string>(),
      HasSubstr("--optimizer-offload-fraction 0."));
  const Json offload = Json::parse(testing::read_text(best + "/ds.json"))
                           .at("zero_optimization")
                           .at("offload_optimizer");
  EXPECT_EQ(offload.at("ratio"), ratio);
  EXPECT_EQ(offload.at("update_on"), "gpu");
  const Result again =
      testing::run(cairn("plan", with({"@" + best + "/flags"}, cluster)));
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(
      Json::parse(again.out)[0].at("iteration_seconds"),
      plan.at("iteration_seconds"));
}

TEST(PlanCommand, AnswersWhatIf) {
  const TemporaryFolder folder;
  const Words layout = with(
      gpt3(),
      {"--tensor-model-parallel-size",
       "8",
       "--pipeline-model-parallel-size",
       "16",
       "--micro-batch-size",
       "1",
       "--zero-stage",
       "1",
       "--checkpoint-activations"});
  const auto days = [&](const Words& more) {
    const Result result = testing::run(cairn(
        "plan",
        with(layout, with({"--json", "--tokens", "300e9"}, more))));
    EXPECT_EQ(result.code, 0) << result.err;
    return Json::parse(result.out)[0].at("run_days").get<double>();
  };
  const double base = days({"--node-mttf-hours", "1e9"});
  EXPECT_GT(days({"--node-mttf-hours", "500"}), 1.02 * base);
  EXPECT_GT(days({"--straggler", "1.5"}), 1.2 * base);
  EXPECT_GT(days({"--link-speed", "all=0.1"}), 1.2 * base);
  const std::string curves = (folder / "curves.svg").string();
  const std::string trace = (folder / "trace.json").string();
  const Result shown = testing::run(cairn(
      "plan",
      with(
          layout,
          {"--scaling",
           curves,
           "--straggler",
           "1.2",
           "--simulate",
           trace,
           "--checkpoint-every",
           "50"})));
  ASSERT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("failures and checkpoints leave"));
  EXPECT_THAT(shown.out, HasSubstr("every 50 iterations"));
  EXPECT_THAT(shown.out, HasSubstr("99328")) << "97 times 1,024";
  EXPECT_THAT(shown.out, HasSubstr("straggler"));
  EXPECT_THAT(testing::read_text(curves), HasSubstr("99328 GPUs:"));
  EXPECT_THAT(testing::read_text(trace), HasSubstr("forward"));
  for (const Words& wrong :
       {Words{"--link-speed", "moon=0.5"},
        Words{"--link-speed", "0.5"},
        Words{"--straggler", "0.5"}}) {
    EXPECT_EQ(testing::run(cairn("plan", with(layout, wrong))).code, 2)
        << wrong.front();
  }
}

TEST(PlanCommand, PlansT5AndValuesOf32Bits) {
  const Words model{
      "--num-layers",
      "12",
      "--hidden-size",
      "768",
      "--num-attention-heads",
      "12",
      "--micro-batch-size",
      "4",
      "--global-batch-size",
      "4",
      "--vocab-size",
      "30000",
      "--cluster",
      "h200",
      "--num-gpus",
      "1",
      "--json"};
  const auto tokens_per_second = [&](const Words& more) {
    const Result result = testing::run(cairn("plan", with(more, model)));
    EXPECT_EQ(result.code, 0) << result.err;
    return Json::parse(result.out)[0]
        .at("tokens_per_second_per_gpu")
        .get<double>();
  };
  EXPECT_GT(
      tokens_per_second(
          {"t5", "--encoder-seq-length", "512", "--decoder-seq-length", "128"}),
      1e4);
  EXPECT_GT(
      tokens_per_second({"gpt", "--seq-length", "512"}),
      4 * tokens_per_second({"gpt", "--seq-length", "512", "--fp32"}));
}

TEST(PlanCommand, RefusesWhatMakesNoSense) {
  EXPECT_THAT(
      testing::run(cairn("plan", {"--num-layers", "2"})).err,
      HasSubstr("which machine?"));
  EXPECT_EQ(testing::run(cairn("plan", {"--cluster", "moon"})).code, 2);
  EXPECT_EQ(
      testing::run(cairn("plan", with(gpt3(), {"--num-gpus", "0"}))).code,
      2);
  EXPECT_EQ(
      testing::run(cairn("plan", with(gpt3(), {"--num-gpsu", "8"}))).code,
      2);
  EXPECT_EQ(testing::run(cairn("plan", {"--help"})).code, 0);
  EXPECT_THAT(
      testing::run(cairn("plan", {"--clusters"})).out,
      HasSubstr("h200"));
}

// The answers on the page are those of the commands that it names.
TEST(PlanCommand, AnswersTheOpenQuestionsAsThePageSays) {
  const Result result = testing::run(
      {"python3",
       CAIRN_SOURCE_DIR "/bench/plan/open_questions.py",
       CAIRN_BINARY_DIR "/bin/cairn"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(
      testing::read_text(CAIRN_SOURCE_DIR "/docs/planning.md"),
      HasSubstr(
          "<!-- bench/plan/open_questions.py -->\n" + result.out +
          "<!-- end -->"))
      << "renew it with bench/plan/open_questions.py CAIRN --write";
}

TEST(PlanCommand, OfZerosStagesNoneSharesActivations) {
  const Result result = testing::run(cairn(
      "plan",
      gpt(36,
          32,
          51200,
          {"--cluster",
           "selene-a100",
           "--num-gpus",
           "64",
           "--micro-batch-size",
           "1",
           "--global-batch-size",
           "64",
           "--stages"})));
  std::istringstream lines(result.out);
  std::set<std::string> activations;
  int rows = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("ZeRO ")) {
      // ZeRO 1   57.2 GB   10.6 GB   yes …
      const auto first = line.find(" GB");
      activations.insert(
          line.substr(first, line.find(" GB", first + 3) - first));
      ++rows;
    }
  }
  EXPECT_GE(rows, 8) << result.out;
  EXPECT_EQ(activations.size(), 1U) << result.out;
}

TEST(MemoryCommand, ShowsTheComponents) {
  const Result result = testing::run(cairn(
      "memory",
      {"--model",
       CAIRN_SOURCE_DIR "/recipes/gpt3-175b/flags",
       "--num-gpus",
       "1024"}));
  EXPECT_EQ(result.code, 0) << result.err;
  for (const char* part : {"parameters", "optimizer", "activations", "total"}) {
    EXPECT_THAT(result.out, HasSubstr(part));
  }
}

} // namespace
} // namespace cairn::plan::command_test
