#include "cli/pretrain_fixture.h"

#include <cairn/base/file.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace cairn::cli::pretrain_test {
namespace {

using ::testing::AllOf;
using testing::Command;
using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::DoubleNear;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pointwise;

namespace fs = std::filesystem;

TEST_F(Pretrain, TrainsSavesAndSaysHow) {
  const Result result =
      run(launched(gpt(8) + saving("plain") + Words{"--zero-stage", "1"}));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(
      result.out + result.err,
      AllOf(
          HasSubstr(" iteration        8/       8 | consumed samples:"),
          HasSubstr(" validation loss at iteration 4 | lm loss value: "),
          HasSubstr("validation loss at the end of training for test data"),
          HasSubstr("the training is done, after iteration 8")));
  EXPECT_TRUE(fs::exists(path("plain") + "/global_step8/manifest.json"));
}

TEST_F(Pretrain, GoesOnAsIfNothingHadHappened) {
  const Words log{"--log-jsonl"};
  succeed(
      launched(gpt(8) + saving("whole") + log + Words{path("whole.jsonl")}));
  succeed(launched(
      gpt(8) + saving("parts") + log +
      Words{path("parts.jsonl"), "--exit-interval", "4"}));
  EXPECT_FALSE(fs::exists(path("parts") + "/global_step8"));
  succeed(
      launched(gpt(8) + saving("parts") + log + Words{path("parts.jsonl")}));
  EXPECT_EQ(values("whole.jsonl", "lm loss"), values("parts.jsonl", "lm loss"));
  // The log lists the events, and the page beside it shows them.
  std::vector<std::string> events;
  std::istringstream lines(read_file(path("parts.jsonl"), 1 << 20));
  for (std::string line; std::getline(lines, line);) {
    const auto object = nlohmann::json::parse(line);
    if (object.contains("event")) {
      events.push_back(
          object["event"].get<std::string>() + " " +
          std::to_string(object["step"].get<int>()));
    }
    if (object.value("event", "") == "start") {
      EXPECT_EQ(object["given"]["--micro-batch-size"], "2");
      EXPECT_EQ(object["versions"]["libtorch"], "2.11.0");
      EXPECT_TRUE(object["configuration"].is_object());
    }
    if (object.value("event", "") == "memory") {
      EXPECT_GT(object["bytes"]["parameters"], 1000);
      EXPECT_GT(object["bytes"]["optimizer"], 1000);
      EXPECT_GT(object["bytes"]["activations"], 1000);
    }
  }
  EXPECT_THAT(
      events,
      ::testing::ElementsAre(
          "start 0",
          "estimate 0",
          "memory 1",
          "memory 4",
          "end 4",
          "start 4",
          "estimate 4",
          "memory 5",
          "memory 8",
          "end 8"));
  EXPECT_THAT(
      read_file(path("parts.html"), 1 << 22),
      HasSubstr("the training is done"));
}

TEST_F(Pretrain, GoesOnWithOtherRanks) {
  succeed(launched(gpt(4) + saving("spread") + Words{"--zero-stage", "2"}));
  for (const auto& [iterations, layout] : std::vector<std::pair<int, Words>>{
           {6, {"--tensor-model-parallel-size", "2", "--sequence-parallel"}},
           {8, {"--pipeline-model-parallel-size", "2"}}}) {
    const Result result =
        run(launched(gpt(iterations) + saving("spread") + layout));
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(
        result.out + result.err,
        AllOf(
            HasSubstr(
                "going on after iteration " + std::to_string(iterations - 2)),
            // Ranks of a tensor group draw alike; those that saved did not.
            HasSubstr("random generators go on as they are"),
            HasSubstr("the run as a page: " + path("spread/log.html"))));
  }
  // The log of all three, beside the checkpoints.
  EXPECT_EQ(values("spread/log.jsonl", "lm loss").size(), 4U);
  succeed(cairn(gpt(2) + saving("without") + Words{"--log-jsonl", ""}));
  EXPECT_FALSE(std::filesystem::exists(path("without/log.jsonl")));
}

/// Ranks that share every sequence follow one that has whole sequences, in
/// training and evaluation, and their checkpoints are the same. Hidden states
/// are dropped alike.
TEST_F(Pretrain, Fp8StaysNearSixteenBits) {
  const auto losses = [&](const std::string& name, const Words& more) {
    const std::string log = name + ".jsonl";
    succeed(
        launched(gpt(8) + Words{"--bf16", "--log-jsonl", path(log)} + more));
    return values(log, "lm loss");
  };
  const auto wanted = losses("bf16", {});
  ASSERT_FALSE(wanted.empty());
  const Words fp8{"--fp8-format", "hybrid"};
  for (const auto& [name, layout] : std::vector<std::pair<std::string, Words>>{
           {"data", {}},
           {"stage3",
            {"--zero-stage",
             "3",
             "--first-last-layers-bf16",
             "--num-layers-at-end-in-bf16",
             "0"}},
           {"tensor",
            {"--tensor-model-parallel-size", "2", "--sequence-parallel"}},
           {"delayed", {"--fp8-recipe", "delayed"}},
           {"delayed-stage3", {"--fp8-recipe", "delayed", "--zero-stage", "3"}},
           {"delayed-recomputed",
            {"--fp8-recipe",
             "delayed",
             "--recompute-granularity",
             "full",
             "--recompute-method",
             "uniform"}},
           {"delayed-tensor",
            {"--fp8-recipe",
             "delayed",
             "--tensor-model-parallel-size",
             "2",
             "--sequence-parallel"}}}) {
    SCOPED_TRACE(name);
    const auto got = losses(name, fp8 + layout);
    EXPECT_THAT(got, Pointwise(DoubleNear(0.005 * wanted.front()), wanted));
    EXPECT_NE(got, wanted); // it is fp8
  }
}

/// Units come from earlier updates, so a checkpoint has them: the run that goes
/// on is the run that never stopped. One that starts from a checkpoint without
/// them, or with histories of another length, measures again.
TEST_F(Pretrain, Fp8HistoriesAreInCheckpoints) {
  const Words flags = gpt(8) +
      Words{
          "--bf16",
          "--attention-dropout",
          "0",
          "--fp8-format",
          "hybrid",
          "--fp8-recipe",
          "delayed",
          "--fp8-amax-history-len",
          "3",
          "--fp8-amax-compute-algo",
          "max",
          "--fp8-margin",
          "1",
          "--log-jsonl"};
  succeed(launched(flags + Words{path("whole.jsonl")}));
  const Words parts = flags + Words{path("parts.jsonl")} + saving("parts");
  succeed(launched(parts + Words{"--exit-interval", "4"}));
  succeed(launched(parts));
  EXPECT_EQ(values("parts.jsonl", "lm loss"), values("whole.jsonl", "lm loss"));
  EXPECT_EQ(
      values("parts.jsonl", "grad norm"),
      values("whole.jsonl", "grad norm"));

  const Words plain = gpt(4) + saving("plain") + Words{"--bf16"};
  succeed(launched(plain));
  const Result measured = run(launched(
      gpt(6) + saving("plain") +
      Words{"--bf16", "--fp8-format", "hybrid", "--fp8-recipe", "delayed"}));
  EXPECT_EQ(measured.code, 0) << measured.err;
  EXPECT_THAT(
      measured.out + measured.err,
      HasSubstr("the checkpoint has no fp8 history of this length"));
}

TEST_F(Pretrain, SharesSequences) {
  const Words flags = gpt(8) + Words{"--attention-dropout", "0", "--log-jsonl"};
  succeed(cairn(flags + Words{path("alone.jsonl")}));
  const Words shared = flags + Words{path("shared.jsonl")} + saving("shared") +
      Words{"--context-parallel-size", "2"};
  succeed(launched(shared + Words{"--exit-interval", "4"}));
  succeed(launched(
      shared + Words{"--exit-interval", "6", "--cp-comm-type", "a2a"}));
  succeed(cairn(flags + Words{path("shared.jsonl")} + saving("shared")));
  for (const char* name :
       {"lm loss", "validation lm loss", "test lm loss", "grad norm"}) {
    const auto wanted = values("alone.jsonl", name);
    const auto got = values("shared.jsonl", name);
    ASSERT_EQ(got.size(), wanted.size()) << name;
    EXPECT_GE(got.size(), 1U) << name;
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i], wanted[i], 1e-4) << name << ' ' << i;
    }
  }
  const Result plan = run(cairn(
      gpt(4) +
      Words{
          "--dry-run=8",
          "--context-parallel-size",
          "4",
          "--cp-comm-type",
          "a2a",
          "--num-attention-heads",
          "4"}));
  EXPECT_EQ(plan.code, 0) << plan.err;
  EXPECT_THAT(
      plan.out,
      AllOf(
          HasSubstr("ranks:      8 = 2 data x 1 pipeline x 1 tensor x 4 "
                    "context, ZeRO stage 0"),
          HasSubstr("effective batch 8 = 2 per rank x 2 accumulation x 2")));
}

TEST_F(Pretrain, SharesExpertsOutAndGoesOnWithOthers) {
  const Words experts{"--num-experts", "4", "--topk", "2"};
  const Result two = run(launched(
      gpt(4) + experts + saving("experts") +
      Words{"--expert-model-parallel-size", "2", "--zero-stage", "1"}));
  ASSERT_EQ(two.code, 0) << two.err;
  EXPECT_THAT(two.out + two.err, ContainsRegex("moe loss: [0-9]"));
  const Result one = run(cairn(gpt(6) + experts + saving("experts")));
  ASSERT_EQ(one.code, 0) << one.err;
  EXPECT_THAT(one.out + one.err, HasSubstr("saved by 2 ranks"));
  EXPECT_THAT(one.out + one.err, ContainsRegex("moe loss: [0-9]"));
  const std::string packed = written(
      "packed.json",
      R"({"zero_optimization": {"stage": 3, "zero_quantized_weights": true}})");
  EXPECT_THAT(
      run(launched(
              gpt(2) + experts +
              Words{
                  "--expert-model-parallel-size",
                  "2",
                  "--deepspeed_config",
                  packed}))
          .err,
      HasSubstr("(zero_optimization): experts are shared out over ranks"));
  const Result converted = run(cairn(
      {"convert",
       "--input",
       path("experts"),
       "--output",
       path("experts-hf"),
       "--to",
       "huggingface"}));
  EXPECT_NE(converted.code, 0);
  EXPECT_THAT(
      converted.err,
      HasSubstr("has no such parameter (layers.1.mlp.router.weight)"));
}

TEST_F(Pretrain, CutsLayersThatStagesDoNotDivide) {
  Words words = gpt(2);
  *(std::ranges::find(words, "--num-layers") + 1) = "3";
  succeed(launched(words + Words{"--pipeline-model-parallel-size", "2"}));
  const Result result =
      run(launched(words + Words{"--pipeline-model-parallel-size", "4"}, 4));
  EXPECT_NE(result.code, 0);
  EXPECT_THAT(
      result.out + result.err,
      HasSubstr("--pipeline-model-parallel-size: a pipeline has at most as "
                "many stages as the model layers (4; 3 layers); use at most 3 "
                "stages"));
}

TEST_F(Pretrain, SavesOnSignalsIfAsked) {
  for (const int signal : {SIGTERM, SIGINT}) {
    const std::string folder = "signal" + std::to_string(signal);
    Command command(launched(
        gpt(100000) + saving(folder) + Words{"--exit-signal-handler"}));
    command.wait_for("iteration        2/");
    command.send(signal);
    const Result result = command.finish();
    EXPECT_THAT(
        result.out + result.err,
        HasSubstr("stopped by a signal, as --exit-signal-handler asks"));
    EXPECT_TRUE(fs::exists(path(folder + "/latest")));
  }
}

/// A scheduler sends SIGTERM to every process, and the launcher passes it on.
TEST_F(Pretrain, SavesAfterManySigterms) {
  Command command(
      cairn(gpt(100000) + saving("many") + Words{"--exit-signal-handler"}));
  command.wait_for("iteration        2/");
  for (int i = 0; i < 5; ++i) { // those that wait together count as one
    command.send(SIGTERM);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const Result result = command.finish();
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_TRUE(fs::exists(path("many/latest")));
}

/// The line of the cursor, counted from its beginning, and the lowest line on
/// which something is left.
struct CursorAtTheEnd {
  int line = 0;
  int lowest = 0;
};

CursorAtTheEnd follow_cursor(const std::string& shown) {
  CursorAtTheEnd cursor;
  for (std::size_t i = 0; i < shown.size(); ++i) {
    if (shown[i] == '\n') {
      ++cursor.line;
    } else if (shown.compare(i, 2, "\x1b[") == 0) {
      const std::size_t end = shown.find_first_not_of("0123456789;?", i + 2);
      const int by = std::atoi(shown.c_str() + i + 2);
      cursor.line += shown[end] == 'A' ? -by : shown[end] == 'B' ? by : 0;
      if (shown[end] == 'J') {
        cursor.lowest = std::min(cursor.lowest, cursor.line);
      }
      i = end;
    } else if (shown[i] != '\r') {
      cursor.lowest = std::max(cursor.lowest, cursor.line);
    }
  }
  return cursor;
}

TEST_F(Pretrain, LeavesTheTerminalInOrderAfterCtrlC) {
  const std::vector<std::pair<std::string, std::string>> terminal{
      {"TERM", "xterm"}};
  for (const Words& words :
       {launched(gpt(100000)),
        cairn(gpt(100000)),
        launched(gpt(100000) + Words{"--zero-stage", "3"}, 1)}) {
    Command command(words, terminal, Command::Streams::terminal);
    command.wait_for(" loss ");
    command.wait_for("A\r"); // a whole drawing
    command.type("\x03");
    const Result result = command.finish();
    EXPECT_EQ(result.code, 128 + SIGINT) << result.out;
    command.expect_nothing_left();
    const CursorAtTheEnd cursor = follow_cursor(result.out);
    EXPECT_GT(cursor.line, cursor.lowest) << result.out;
  }
}

TEST_F(Pretrain, SaysWhatItWouldTrain) {
  const Result here = run(launched(
      gpt(4) + Words{"--dry-run", "--lazy-loader"})); // of older scripts
  EXPECT_EQ(here.code, 0) << here.err;
  EXPECT_THAT(
      here.out,
      AllOf(
          HasSubstr("[0] model:      gpt, 38784 parameters, vocabulary 300 "
                    "padded to 384\n"),
          HasSubstr("[0] ranks:      2 = 2 data x 1 pipeline x 1 tensor, ZeRO "
                    "stage 0\n"),
          HasSubstr("[0] iterations: 4, 32 samples of 32 tokens\n"),
          Not(HasSubstr("[1]"))));
  const Result there = run(cairn(
      gpt(4) +
      Words{
          "--dry-run=8",
          "--pipeline-model-parallel-size",
          "2",
          "--data-path",
          "nowhere"}));
  EXPECT_EQ(there.code, 0) << there.err;
  EXPECT_THAT(
      there.out,
      AllOf(
          HasSubstr("ranks:      8 = 4 data x 2 pipeline x 1 tensor"),
          HasSubstr("effective batch 8 = 2 per rank x 1 accumulation x 4")));
  const Result nonsense = run(cairn(gpt(4) + Words{"--dry-run=some"}));
  EXPECT_EQ(nonsense.code, 2);
  EXPECT_THAT(
      nonsense.err,
      HasSubstr("--dry-run: \"some\" is no number of ranks"));
}

TEST_F(Pretrain, LogsWhatIsAskedFor) {
  const Words asked{
      "--log-params-norm",
      "--log-num-zeros-in-grad",
      "--timing-log-level",
      "2",
      "--use-distributed-optimizer",
      "--DDP-impl",
      "local",
      "--bf16",
      "--fp32-allreduce",
      "--deepspeed",
      "--tensorboard-dir",
      path("board"),
      "--log-timers-to-tensorboard",
      "--log-optimizer-states-to-tensorboard"};
  const Result result = run(launched(gpt(4) + asked));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(
      result.out,
      AllOf(
          ContainsRegex("num zeros: [0-9]+ \\| params norm: [0-9]+\\.[0-9]+ "),
          ContainsRegex(
              "time \\(ms\\) \\| forward: [0-9.]+ \\| backward: [0-9.]+ \\| "
              "allreduce: [0-9.]+ \\| optimizer: [0-9.]+ \\| batch generator: "
              "[0-9.]+ \\| data loader: [0-9.]+ \\| grad norm: [0-9.]+\n")));
  EXPECT_THAT(
      result.err,
      AllOf(
          HasSubstr(
              "[0]   --hidden-size .................................. 32"),
          HasSubstr("DeepSpeed is enabled."),
          HasSubstr("fp32 communication"),
          HasSubstr("ZeRO stage 1")));
  ASSERT_EQ(std::distance(fs::directory_iterator(path("board")), {}), 1);
  const std::string events =
      read_file(fs::directory_iterator(path("board"))->path(), 1 << 20);
  for (const char* name :
       {"optimizer/variance_sqrt_l1",
        "optimizer/weight_abs_max vs tokens",
        "forward-time",
        "params-norm/params-norm vs samples",
        "num-zeros/num-zeros",
        "| --adam-beta1 | 0.9 |"}) {
    EXPECT_THAT(events, HasSubstr(name));
  }

  const Result over_ranks = run(launched(
      gpt(2) + Words{"--timing-log-level", "1", "--timing-log-option", "all"}));
  EXPECT_THAT(
      over_ranks.out,
      AllOf(
          HasSubstr("times across ranks (ms):"),
          ContainsRegex("optimizer:\n\\[0\\]      rank  0: [0-9.]+\n\\[0\\] "
                        "     rank  1: [0-9.]+\n"),
          Not(HasSubstr("time (ms) |")),
          Not(HasSubstr("grad norm:\n"))));
}

TEST_F(Pretrain, TracesTellThePartsOfTheModel) {
  succeed(cairn(
      gpt(3) +
      Words{
          "--tensorboard-dir",
          path("traced/tensorboard"),
          "--profile",
          "--profile-steps",
          "2-3",
          "--recompute-granularity",
          "full",
          "--recompute-method",
          "uniform",
          "--recompute-num-layers",
          "1"}));
  const std::filesystem::directory_iterator files(path("traced/profiling"));
  const std::string file = files->path().string();
  const auto trace = nlohmann::json::parse(read_file(file, 1 << 28));
  std::map<std::string, std::int64_t> flops;
  for (const auto& event : trace["traceEvents"]) {
    const auto& about = event.value("args", nlohmann::json::object());
    if (about.contains("FLOPs")) {
      flops[about.value("Module", "")] += about["FLOPs"].get<std::int64_t>();
    }
  }
  // Of each MLP, in two steps of 8 samples of 32 tokens: forward, forward
  // again, and backward, which has two products for each one of forward and,
  // with our own GELU, a multiplication by its slope.
  for (const std::string layer : {"layers.0", "layers.1"}) {
    constexpr std::int64_t tokens = 2 * 8 * 32;
    constexpr std::int64_t products = tokens * (2 * 32 * 128 * 2) * 4;
    EXPECT_GE(flops[layer + ".mlp"], products);
    EXPECT_LE(flops[layer + ".mlp"], products + tokens * 128);
    EXPECT_GT(flops[layer + ".attention"], 2 * 8 * 32 * (2 * 32 * 128) * 4);
  }
  // An operator's calls lead from main() to the model.
  std::set<std::string> stacks;
  for (const auto& event : trace["traceEvents"]) {
    const auto& about = event.value("args", nlohmann::json::object());
    stacks.insert(about.value("Call stack", ""));
  }
  EXPECT_THAT(
      stacks,
      Contains(AllOf(
          HasSubstr("cairn::nn::"),
          HasSubstr(";cairn::pretrain::"),
          EndsWith(";main"))));
}

TEST_F(Pretrain, HelpListsWhatItTakesInGroups) {
  const Result result = run(cairn({"pretrain", "--help"}));
  EXPECT_THAT(
      result.out,
      AllOf(
          HasSubstr("\nmodel:\n"),
          HasSubstr("\ntraining:\n"),
          HasSubstr("\nmixed precision:\n"),
          HasSubstr("\nvalidation:\n"),
          HasSubstr("\ndata:\n"),
          HasSubstr("\nDeepSpeed:\n"),
          HasSubstr("  --log-params-norm\n"),
          Not(HasSubstr("--mtp-num-layers")),
          Not(HasSubstr("text generation:"))));
}

TEST_F(Pretrain, FineTunesFromWeightsAlone) {
  succeed(cairn(gpt(2) + Words{"--save", path("base")}));
  const Result result = run(cairn(
      gpt(2) +
      Words{"--load", path("base"), "--finetune", "--save", path("tuned")}));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(
      result.out + result.err,
      HasSubstr("fine-tuning from iteration 0, 0 samples consumed"));
  EXPECT_TRUE(fs::exists(path("tuned") + "/global_step2"));
}

TEST_F(Pretrain, FineTunesFromOtherFormats) {
  succeed(cairn(gpt(2) + Words{"--save", path("origin")}));
  const auto tuned = [](const std::string& from, int ranks, Words more) {
    const Words flags = gpt(2) +
        Words{"--load", path(from), "--finetune", "--log-jsonl"} +
        Words{path(from + std::to_string(ranks) + ".jsonl")} + more;
    const Result result =
        run(ranks > 1 ? launched(flags, ranks) : cairn(flags));
    EXPECT_EQ(result.code, 0) << from << result.err;
    return result.out + result.err;
  };
  tuned("origin", 1, {});
  const auto wanted = values("origin1.jsonl", "lm loss");
  ASSERT_FALSE(wanted.empty());
  for (const std::string format :
       {"huggingface", "megatron", "deepspeed", "torch"}) {
    succeed(cairn(
        {"convert",
         "--input",
         path("origin"),
         "--output",
         path(format),
         "--to",
         format,
         "--weights-only"}));
    EXPECT_THAT(
        tuned(format, 1, {}),
        HasSubstr(
            "loaded the weights of " + path(format) + " (format " + format +
            "): fine-tuning from iteration 0"));
    // MKL may add up in another order from run to run.
    EXPECT_THAT(
        values(format + "1.jsonl", "lm loss"),
        Pointwise(DoubleNear(1e-5), wanted))
        << format;
  }
  for (const Words& layout : std::vector<Words>{
           {"--tensor-model-parallel-size", "2"},
           {"--pipeline-model-parallel-size", "2"}}) {
    const Words more = layout + Words{"--hidden-dropout", "0"} +
        Words{"--attention-dropout", "0"};
    tuned("origin", 2, more);
    tuned("huggingface", 2, more);
    EXPECT_EQ(
        values("huggingface2.jsonl", "lm loss"),
        values("origin2.jsonl", "lm loss"));
  }

  const auto refusal = [](const Words& more) {
    const Result result =
        run(cairn(gpt(2) + Words{"--load", path("huggingface")} + more));
    EXPECT_EQ(result.code, 2) << result.err;
    return result.err;
  };
  EXPECT_THAT(
      refusal({}),
      HasSubstr("the checkpoint has weights, and no training to go on from "
                "(huggingface); add --finetune"));
  EXPECT_THAT(
      refusal(
          {"--finetune",
           "--norm-epsilon",
           "1e-6",
           "--untie-embeddings-and-output-weights"}),
      AllOf(
          HasSubstr("norm_epsilon 1e-05 there, 1e-06 here"),
          HasSubstr("tied_head true there, false here"),
          HasSubstr("look at --norm-epsilon, "
                    "--untie-embeddings-and-output-weights")));
}

TEST(PretrainMockData, NeedsNoFiles) {
  const TemporaryFolder folder;
  const auto path = [&](const std::string& name) {
    return (folder.path() / name).string();
  };
  const Words tiny{
      "--mock-data",
      "--tokenizer-type",
      "NullTokenizer",
      "--vocab-size",
      "100",
      "--num-layers",
      "2",
      "--hidden-size",
      "32",
      "--num-attention-heads",
      "2",
      "--seq-length",
      "32",
      "--max-position-embeddings",
      "32",
      "--micro-batch-size",
      "2",
      "--train-iters",
      "3",
      "--eval-iters",
      "1",
      "--lr",
      "1e-3",
      "--log-interval",
      "1",
      "--log-jsonl"};
  const auto first_loss = [&](const std::string& kind, const Words& more) {
    const std::string log = path(kind + ".jsonl");
    succeed(cairn(Words{"pretrain", kind} + tiny + Words{log} + more));
    std::istringstream lines(read_file(log, 1 << 20));
    for (std::string line; std::getline(lines, line);) {
      const auto object = nlohmann::json::parse(line);
      if (object.contains("lm loss")) {
        return object["lm loss"].get<double>();
      }
    }
    return 0.0;
  };
  // Tokens that nothing predicts: the loss is the logarithm of their number.
  EXPECT_NEAR(first_loss("gpt", {}), std::log(100), 0.2);
  EXPECT_NEAR(first_loss("bert", {}), std::log(100), 0.2);
  EXPECT_NEAR(
      first_loss("t5", {"--decoder-seq-length", "16"}),
      std::log(100),
      0.2);
}

TEST_F(Pretrain, ItsCheckpointsConvert) {
  succeed(cairn(gpt(2) + Words{"--save", path("convertible")}));
  succeed(cairn(
      {"convert",
       "--input",
       path("convertible"),
       "--output",
       path("converted"),
       "--to",
       "huggingface"}));
  EXPECT_TRUE(fs::exists(path("converted") + "/model.safetensors"));
}

/// The rank that cannot write is blamed, with its error, whoever ends first.
TEST_F(Pretrain, BlamesTheRankThatFails) {
  const std::vector<Words> failing{
      {"--save", "/proc/nope"},
      {"--tensorboard-dir", "/proc/nope"},
      {"--log-jsonl", "/proc/nope/log.jsonl"}};
  for (const Words& words : failing) {
    const Result result = run(launched(gpt(4) + words));
    EXPECT_NE(result.code, 0);
    EXPECT_THAT(result.err, ContainsRegex("error: rank 0 \\(pid"));
    EXPECT_THAT(result.err, Not(ContainsRegex("error: rank 1 \\(pid")));
    const auto own = result.err.find("[0] cairn: ");
    ASSERT_NE(own, std::string::npos) << result.err;
    EXPECT_NE(result.err.find("/proc/nope", own), std::string::npos);
    // The other rank knows why.
    EXPECT_THAT(result.err, HasSubstr("rank 0 has failed: "));
  }
}

TEST_F(Pretrain, OneTrainingWritesToAFolder) {
  Command first(launched(gpt(100000) + saving("shared")));
  first.wait_for(" iteration        8/");
  const std::string log = read_file(path("shared/log.jsonl"), 1 << 20);
  const Result second = run(cairn(gpt(4) + saving("shared")));
  EXPECT_EQ(second.code, 1);
  EXPECT_THAT(second.err, HasSubstr("another job is writing to this folder"));
  EXPECT_THAT(
      read_file(path("shared/log.jsonl"), 1 << 24),
      ::testing::AllOf(
          ::testing::StartsWith(log),
          Not(HasSubstr("\"iterations\":4,"))));
  first.send(SIGTERM);
  first.finish();
}

TEST_F(Pretrain, RefusesWhatItCannotDo) {
  const auto refusal = [](const Words& words) {
    const Result result = run(cairn(words));
    EXPECT_EQ(result.code, 2) << result.err;
    return result.err;
  };
  EXPECT_THAT(
      refusal(gpt(2) + Words{"--greedy"}),
      HasSubstr("pretrain does not act on these flags (--greedy)"));
  EXPECT_THAT(
      refusal(gpt(2) + Words{"--mock-data"}),
      HasSubstr("there are files to train on as well as made-up data"));
  EXPECT_THAT(refusal({"pretrain", "gpd"}), HasSubstr("did you mean \"gpt\"?"));
  Words words = gpt(2);
  words.erase(
      std::ranges::find(words, "--data-path"),
      std::ranges::find(words, "--tokenizer-model"));
  EXPECT_THAT(refusal(words), HasSubstr("there is no data to train on"));
  EXPECT_THAT(
      refusal({"pretrain", "gpt", "--train-iters", "2", "--lr", "1"}),
      HasSubstr("--seq-length: the length of a sample is not said"));
  EXPECT_THAT(
      refusal(
          gpt(2) +
          Words{"--recompute-activations", "--recompute-modules", "shared"}),
      HasSubstr("no part of a layer that is recomputed alone: shared"));
  EXPECT_THAT(
      refusal(gpt(2) + Words{"--overlap-param-gather"}),
      HasSubstr("updated parameters are not gathered at ZeRO stage 0"));
  EXPECT_THAT(
      refusal(gpt(2) + Words{"--num-experts", "4", "--optimizer", "lamb"}),
      HasSubstr("this optimizer looks at whole parameters"));
  EXPECT_THAT(
      refusal(gpt(2) + Words{"--log-timers-to-tensorboard"}),
      HasSubstr("needs --tensorboard-dir"));
  EXPECT_THAT(
      refusal(
          gpt(2) +
          Words{
              "--optimizer",
              "sgd",
              "--log-optimizer-states-to-tensorboard",
              "--tensorboard-dir",
              path("none")}),
      HasSubstr("does not have both moments of Adam"));
  EXPECT_THAT(
      refusal(gpt(2) + Words{"--cuda-graph-impl", "local"}),
      HasSubstr("cannot be recorded as a CUDA graph: it runs on the CPU"));
  EXPECT_THAT(
      refusal(gpt(2) + Words{"--recompute-num-layers", "2"}),
      HasSubstr("no layers are recomputed; give --checkpoint-activations"));
}

} // namespace
} // namespace cairn::cli::pretrain_test
