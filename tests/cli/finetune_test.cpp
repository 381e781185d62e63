// `cairn evaluate` with tasks that BERT is fine-tuned for.

#include "evaluate/toy_task.h"
#include "support/command.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>

namespace cairn::testing::finetune_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
namespace toy = evaluate::toy;

const std::string program = CAIRN_BINARY_DIR "/bin/cairn";
const std::string bert = CAIRN_GOLDEN_DIR "/models/bert";

Result cairn(Words words) {
  words.insert(words.begin(), program);
  return run(words);
}

/// Flags that fine-tune the tiny BERT on MNLI, on one rank or several.
Words mnli(const TemporaryFolder& folder, int ranks) {
  Words words;
  if (ranks > 1) {
    words = {"launch", "--num_gpus", std::to_string(ranks)};
  }
  const Words rest{
      "evaluate",
      "--task",
      "MNLI",
      "--train-data",
      toy::mnli_file(folder, "train.tsv", 40, 1),
      "--valid-data",
      toy::mnli_file(folder, "dev_matched.tsv", 9, 2),
      toy::mnli_file(folder, "dev_mismatched.tsv", 5, 3),
      "--vocab-file",
      toy::vocabulary(folder),
      "--pretrained-checkpoint",
      bert,
      "--seq-length",
      "24",
      "--epochs",
      "2",
      "--lr",
      "1e-3"};
  words.insert(words.end(), rest.begin(), rest.end());
  return words;
}

Words operator+(Words left, const Words& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

TEST(FinetuneCommand, PrintsMegatronsLines) {
  const TemporaryFolder folder;
  const std::string save = (folder / "saved").string();
  const std::string output = (folder / "results.json").string();
  const Words saving{"--save", save, "--load", save};
  const Result result = cairn(
      mnli(folder, 2) + saving +
      Words{
          "--micro-batch-size",
          "4",
          "--log-interval",
          "5",
          "--eval-interval",
          "5",
          "--eval-iters",
          "2",
          "--output",
          output});
  ASSERT_EQ(result.code, 0) << result.err;
  for (const char* line :
       {"working on epoch 1 ...",
        "working on epoch 2 ...",
        " iteration        5/      10 | consumed samples:           40 |",
        " validation loss at iteration 10 | lm loss value: ",
        "calculating metrics ...",
        " >> |epoch: 1| overall: correct / total = "}) {
    EXPECT_THAT(result.out, HasSubstr(line));
  }
  EXPECT_THAT(result.out, HasSubstr("dev-matched: correct / total = "));
  EXPECT_THAT(result.out, HasSubstr(" / 14 = "));
  EXPECT_THAT(
      result.err,
      HasSubstr("(format huggingface); new: classification"));
  const json report = json::parse(read_text(output));
  EXPECT_EQ(report["task"], "MNLI");
  EXPECT_EQ(report["losses"].size(), 10U);
  EXPECT_EQ(report["epochs"][1]["files"][1]["samples"], 5);
  EXPECT_TRUE(fs::exists(fs::path(save) / "log.jsonl"));

  // The same command again has nothing to train, and evaluates.
  const Result again =
      cairn(mnli(folder, 1) + saving + Words{"--micro-batch-size", "8"});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(
      again.out,
      AllOf(
          HasSubstr("the checkpoint is of the end of the fine-tuning"),
          HasSubstr(" >> |epoch: 1| overall: "),
          Not(HasSubstr("working on epoch"))));
  const std::size_t at = again.out.find(" >> |epoch: 1|");
  EXPECT_THAT(
      result.out,
      HasSubstr(again.out.substr(at, again.out.find('\n', at) - at)));

  const Result inspected = cairn({"checkpoint", "inspect", save});
  EXPECT_EQ(inspected.code, 0) << inspected.err;
  EXPECT_THAT(inspected.out, HasSubstr("classification.weight"));
}

TEST(FinetuneCommand, TakesKeepLastInBothMeanings) {
  const TemporaryFolder folder;
  const Words task =
      mnli(folder, 1) + Words{"--micro-batch-size", "16", "--epochs", "1"};
  const Result dropped = cairn(task);
  EXPECT_EQ(dropped.code, 0) << dropped.err;
  const std::string output = (folder / "results.json").string();
  const Words written{"--output", output};
  const auto updates = [&](const Words& more) {
    const Result result = cairn(task + written + more);
    EXPECT_EQ(result.code, 0) << result.err;
    return json::parse(read_text(output))["iterations"].get<int>();
  };
  EXPECT_EQ(updates({}), 2);
  EXPECT_EQ(updates({"--keep-last"}), 3);
  EXPECT_EQ(updates({"--keep_last", "--seed", "3"}), 3);
  EXPECT_EQ(
      updates(
          {"--keep-last",
           "1",
           "--save",
           (folder / "kept").string(),
           "--save-interval",
           "1"}),
      2);
  EXPECT_FALSE(fs::exists(folder / "kept/global_step1"));
  EXPECT_TRUE(fs::exists(folder / "kept/global_step2"));
}

TEST(FinetuneCommand, HasHelpOfItsOwn) {
  const Result help = cairn({"evaluate", "--task", "RACE", "--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(
      help.out,
      AllOf(
          HasSubstr("Fine-tunes a BERT"),
          HasSubstr("--pretrained-checkpoint"),
          HasSubstr("--lr-warmup-fraction")));
  EXPECT_THAT(
      cairn({"evaluate", "--help"}).out,
      HasSubstr("cairn evaluate --task MNLI"));
}

TEST(FinetuneCommand, RunsTheExampleScripts) {
  const TemporaryFolder folder;
  const std::vector<std::pair<std::string, std::string>> common{
      {"CAIRN", program},
      {"GPUS_PER_NODE", "2"},
      {"VOCAB_FILE", toy::vocabulary(folder)},
      {"PRETRAINED_CHECKPOINT", bert},
      {"SEQ_LENGTH", "24"}};
  const auto run_script = [&](const std::string& name,
                              const std::string& train,
                              const std::string& valid) {
    auto environment = common;
    environment.insert(
        environment.end(),
        {{"TRAIN_DATA", train},
         {"VALID_DATA", valid},
         {"CHECKPOINT_PATH", (folder / name).string()}});
    return Command(
               {"bash",
                CAIRN_SOURCE_DIR "/examples/scripts/finetune_" + name +
                    "_distributed.sh",
                "--epochs",
                "1",
                "--micro-batch-size", // fp16 is slow on many CPUs
                "2"},
               environment)
        .finish();
  };
  const Result mnli = run_script(
      "mnli",
      toy::mnli_file(folder, "train.tsv", 8, 1),
      toy::mnli_file(folder, "dev.tsv", 3, 2) + " " +
          toy::mnli_file(folder, "other.tsv", 3, 3));
  EXPECT_EQ(mnli.code, 0) << mnli.err;
  EXPECT_THAT(mnli.out, HasSubstr(" >> |epoch: 0| overall: correct / total"));
  const Result race = run_script(
      "race",
      toy::race_folder(folder, "RACE/train", 4, 1),
      toy::race_folder(folder, "RACE/dev/middle", 2, 2));
  EXPECT_EQ(race.code, 0) << race.err;
  EXPECT_THAT(race.out, HasSubstr("metrics for dev-middle: correct / total"));
}

} // namespace
} // namespace cairn::testing::finetune_test
