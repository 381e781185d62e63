#include "evaluate/internal/finetune.h"

#include "evaluate/finetuning.h"
#include "evaluate/toy_task.h"
#include "support/error_text.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>
#include <cairn/distributed/init_distributed.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace cairn::evaluate::finetune_refusals_test {
namespace {

using ::testing::HasSubstr;
using testing::TemporaryFolder;
using toy::operator+;
using toy::Words;

template <typename Expected = ConfigError>
std::string refusal(const Words& flags) {
  return error_text<Expected>([&] {
    toy::run(
        Words{"--micro-batch-size", "4", "--lr", "1e-3"} + flags,
        distributed::init_distributed());
  });
}

TEST(FinetuneRefusals, NameWhatIsMissing) {
  const TemporaryFolder folder;
  const std::string train = toy::mnli_file(folder, "train.tsv", 8, 1);
  const Words task{"--task", "MNLI", "--vocab-file", toy::vocabulary(folder)};
  EXPECT_THAT(refusal(task), HasSubstr("--epochs: the length"));
  EXPECT_THAT(
      refusal(task + Words{"--epochs", "1"}),
      HasSubstr("--valid-data: there is nothing to evaluate on"));
  const Words one = task + Words{"--epochs", "1", "--valid-data", train};
  EXPECT_THAT(refusal(one), HasSubstr("--train-data: there is nothing"));
  EXPECT_THAT(
      refusal(task + Words{"--epochs", "0", "--valid-data", train}),
      HasSubstr("--load: there is no model to evaluate"));
  const Words both = one + Words{"--train-data", train};
  EXPECT_THAT(refusal(both), HasSubstr("the size of the model is not said"));
  EXPECT_THAT(
      refusal(
          both +
          Words{"--pretrained-checkpoint", CAIRN_GOLDEN_DIR "/models/gpt2"}),
      HasSubstr("only BERT is fine-tuned on tasks (the model is gpt2)"));
  const Words whole = both + Words{"--pretrained-checkpoint", toy::bert};
  EXPECT_THAT(
      refusal(whole + Words{"--seq-length", "65"}),
      HasSubstr("--seq-length: samples of that length do not suit the model "
                "(65 tokens; the model has 64 positions)"));
  EXPECT_THAT(
      refusal(whole + Words{"--hidden-size", "32"}),
      HasSubstr("hidden 64 there, 32 here"));
  EXPECT_THAT(
      refusal(whole + Words{"--train-iters", "8"}),
      HasSubstr("does not act on these flags (--train-iters); leave them out"));
  EXPECT_THAT(
      refusal(whole + Words{"--load", toy::bert}),
      HasSubstr("the checkpoint is not one of a fine-tuning"));
  EXPECT_THAT(
      refusal<CheckpointError>(
          whole + Words{"--load", "/nowhere", "--exit-on-missing-checkpoint"}),
      HasSubstr("/nowhere: there is no checkpoint to go on from"));
  EXPECT_THAT(
      refusal<DataError>(whole + Words{"--global-batch-size", "12"}),
      HasSubstr("the training data have no whole batch (8 samples, batches of "
                "12)"));
}

TEST(FinetuneRefusals, NameTheTaskOfACheckpoint) {
  const TemporaryFolder folder;
  const std::string train = toy::mnli_file(folder, "train.tsv", 8, 1);
  const std::string save = (folder / "saved").string();
  const Words base{
      "--vocab-file",
      toy::vocabulary(folder),
      "--pretrained-checkpoint",
      toy::bert,
      "--seq-length",
      "16"};
  const Words mnli = base +
      Words{
          "--task",
          "MNLI",
          "--train-data",
          train,
          "--valid-data",
          train,
          "--epochs",
          "1"};
  toy::run(
      mnli + Words{"--lr", "1e-3", "--micro-batch-size", "4", "--save", save},
      distributed::init_distributed());
  const std::string rte = folder.write(
      "rte.tsv",
      "index\tsentence1\tsentence2\tlabel\n0\tA cat.\tA dog.\tentailment\n");
  EXPECT_THAT(
      refusal(
          base +
          Words{
              "--task",
              "RTE",
              "--valid-data",
              rte,
              "--epochs",
              "0",
              "--load",
              save}),
      HasSubstr("the checkpoint was fine-tuned for another task (its head has "
                "3 outputs, RTE has 2)"));
  EXPECT_THAT(
      refusal(mnli + Words{"--load", save, "--global-batch-size", "8"}),
      HasSubstr("the checkpoint was trained with another train_batch_size (4 "
                "there, 8 here)"));
}

} // namespace
} // namespace cairn::evaluate::finetune_refusals_test
