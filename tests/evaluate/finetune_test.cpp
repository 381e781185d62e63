// A tiny BERT learns tasks from files in the formats of MNLI and RACE, on one
// rank and on several.

#include "evaluate/internal/finetune.h"

#include "evaluate/finetuning.h"
#include "evaluate/toy_task.h"
#include "support/run_ranks.h"
#include "support/temporary_folder.h"

#include <cairn/checkpoints/convert.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace cairn::evaluate::finetune_test {
namespace {

using nlohmann::json;
using testing::TemporaryFolder;
using toy::operator+;
using toy::Words;

const Words training{
    "--lr",
    "2e-3",
    "--lr-warmup-fraction",
    "0.1",
    "--seq-length",
    "24",
    "--log-interval",
    "1000"};

Words mnli(const TemporaryFolder& folder, std::int64_t rows) {
  return Words{
             "--task",
             "MNLI",
             "--tokenizer-type",
             "BertWordPieceLowerCase",
             "--vocab-file",
             toy::vocabulary(folder),
             "--pretrained-checkpoint",
             toy::bert,
             "--train-data",
             toy::mnli_file(folder, "train.tsv", rows, 1),
             "--valid-data",
             toy::mnli_file(folder, "dev_matched.tsv", 37, 2),
             toy::mnli_file(folder, "dev_mismatched.tsv", 10, 3)} +
      training;
}

double accuracy(const FileResult& file) {
  return static_cast<double>(file.scores.correct.value()) /
      static_cast<double>(file.samples);
}

void write(const std::filesystem::path& file, const std::string& text) {
  std::ofstream(file) << text;
}

json read(const std::filesystem::path& file) {
  return json::parse(std::ifstream(file));
}

TEST(Finetune, LearnsMnli) {
  const TemporaryFolder folder;
  toy::run_on(
      1,
      mnli(folder, 192) +
          Words{"--epochs", "4", "--micro-batch-size", "8", "--seed", "7"},
      [](const FinetuneReport& report) {
        EXPECT_EQ(report.iterations, 4 * 24);
        ASSERT_EQ(report.losses.size(), 96U);
        EXPECT_GT(report.losses.front(), 0.8);
        EXPECT_LT(report.losses.back(), 0.2);
        ASSERT_EQ(report.epochs.size(), 4U);
        ASSERT_EQ(report.epochs[3].files.size(), 2U);
        EXPECT_EQ(report.epochs[3].files[0].samples, 37);
        EXPECT_GE(accuracy(report.epochs[3].files[0]), 0.94);
        EXPECT_GE(accuracy(report.epochs[3].files[1]), 0.9);
      });
}

Words race(const TemporaryFolder& folder, std::int64_t articles) {
  return Words{
             "--task",
             "RACE",
             "--vocab-file",
             toy::vocabulary(folder),
             "--pretrained-checkpoint",
             toy::bert,
             "--train-data",
             toy::race_folder(folder, "train", articles, 1),
             "--valid-data",
             toy::race_folder(folder, "RACE/dev/middle", 13, 2)} +
      training;
}

TEST(Finetune, LearnsRace) {
  const TemporaryFolder folder;
  toy::run_on(
      1,
      race(folder, 60) + Words{"--epochs", "5", "--micro-batch-size", "4"},
      [](const FinetuneReport& report) {
        EXPECT_EQ(report.iterations, 5 * 30);
        const FileResult& last = report.epochs.back().files.at(0);
        EXPECT_EQ(last.name, "dev-middle");
        EXPECT_EQ(last.samples, 26);
        EXPECT_GE(accuracy(last), 0.9);
      });
}

TEST(Finetune, LearnsScores) {
  const TemporaryFolder folder;
  const auto file = [&](const std::string& name, int rows, int seed) {
    toy::Draw draw(seed);
    std::string text =
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\t"
        "sentence1\tsentence2\tscore\n";
    const Words words{"never", "maybe", "surely"};
    for (int i = 0; i < rows; ++i) {
      const auto score = draw.next() % 3;
      text += fmt::format(
          "{}\tg\tf\ty\to\ts\ts\tThe {} is {} .\tThe {} was {} .\t{}.500\n",
          i,
          draw.from(toy::animals),
          draw.from(toy::colours),
          words[score],
          draw.from(toy::colours),
          2 * score);
    }
    return folder.write(name, text);
  };
  const Words flags = Words{
      "--task",
      "STS-B",
      "--vocab-file",
      toy::vocabulary(folder),
      "--pretrained-checkpoint",
      toy::bert,
      "--train-data",
      file("train.tsv", 160, 1),
      "--valid-data",
      file("dev.tsv", 40, 2)};
  toy::run_on(
      1,
      flags + training + Words{"--epochs", "4", "--micro-batch-size", "8"},
      [](const FinetuneReport& report) {
        const TaskScores& scores = report.epochs.back().files.at(0).scores;
        EXPECT_GE(scores.pearson.value(), 0.95);
        EXPECT_GE(scores.spearman.value(), 0.9);
        EXPECT_FALSE(scores.correct);
      });
}

/// A layout of ranks that must give the results of one rank.
struct Layout {
  std::string name;
  int ranks = 1;
  Words flags;
  double tolerance = 1e-5; ///< of the losses
};

class FinetuneLayouts : public ::testing::TestWithParam<Layout> {};

/// Expects the losses and answers of a task to be those of one rank, which
/// takes batches of 8.
void expect_results_of_one_rank(const Words& task, const Layout& layout) {
  const TemporaryFolder folder;
  toy::run_on(
      1,
      task + Words{"--micro-batch-size", "8"},
      [&](const FinetuneReport& report) {
        write(folder / "one.json", to_json(report));
      });
  toy::run_on(
      layout.ranks,
      task + layout.flags,
      [&](const FinetuneReport& report) {
        write(folder / "many.json", to_json(report));
      });
  const json one = read(folder / "one.json");
  const json many = read(folder / "many.json");
  EXPECT_EQ(one["epochs"], many["epochs"]);
  ASSERT_EQ(one["losses"].size(), many["losses"].size());
  for (std::size_t i = 0; i < one["losses"].size(); ++i) {
    EXPECT_NEAR(
        one["losses"][i].get<double>(),
        many["losses"][i].get<double>(),
        layout.tolerance)
        << i;
  }
}

TEST_P(FinetuneLayouts, GiveTheResultsOfOneRank) {
  const TemporaryFolder folder;
  // 37 and 10 validation samples fill no batch of 8, and 70 training samples no
  // ninth batch.
  expect_results_of_one_rank(
      mnli(folder, 70) + Words{"--epochs", "2"},
      GetParam());
  // 26 questions; their options stay together.
  expect_results_of_one_rank(
      race(folder, 16) + Words{"--epochs", "1"},
      GetParam());
}

const Words tensor2{"--tensor-model-parallel-size", "2"};
const Words pipeline2{"--pipeline-model-parallel-size", "2"};

INSTANTIATE_TEST_SUITE_P(
    Table,
    FinetuneLayouts,
    ::testing::Values(
        Layout{"data2", 2, Words{"--micro-batch-size", "4"}},
        Layout{
            "data2_zero2_accumulation2",
            2,
            Words{
                "--micro-batch-size",
                "2",
                "--global-batch-size",
                "8",
                "--zero-stage",
                "2"}},
        Layout{
            "data2_zero3",
            2,
            Words{"--micro-batch-size", "4", "--zero-stage", "3"}},
        Layout{"tensor2", 2, tensor2 + Words{"--micro-batch-size", "8"}},
        Layout{
            "tensor2_sequence",
            2,
            tensor2 + Words{"--sequence-parallel", "--micro-batch-size", "8"}},
        Layout{
            "pipeline2",
            2,
            pipeline2 +
                Words{"--micro-batch-size", "2", "--global-batch-size", "8"}},
        Layout{"data2_tensor2", 4, tensor2 + Words{"--micro-batch-size", "4"}},
        Layout{
            "recomputed",
            1,
            Words{"--micro-batch-size", "8", "--checkpoint-activations"}}),
    [](const auto& info) { return info.param.name; });

TEST(Finetune, CountsASmallerLastBatchByItsSamples) {
  const TemporaryFolder folder;
  // 21 samples: two batches of 8 and one of 5, on one rank or on two.
  const Words task = mnli(folder, 21) +
      Words{
          "--epochs",
          "1",
          "--hidden-dropout",
          "0",
          "--attention-dropout",
          "0"};
  const auto losses_of = [&](int ranks, const std::string& micro) {
    testing::run_ranks({.ranks = ranks}, [&](const distributed::World& world) {
      const FinetuneReport report =
          toy::run(task + Words{"--micro-batch-size", micro}, world, true);
      if (world.rank() == 0) {
        write(folder / "losses.json", json(report.losses).dump());
      }
    });
    return read(folder / "losses.json").get<std::vector<double>>();
  };
  const std::vector<double> one = losses_of(1, "8");
  EXPECT_EQ(one.size(), 3U);
  EXPECT_THAT(
      losses_of(2, "4"),
      ::testing::Pointwise(::testing::DoubleNear(1e-5), one));
}

TEST(Finetune, GoesOnWhereItStopped) {
  const TemporaryFolder folder;
  const Words task =
      mnli(folder, 64) + Words{"--epochs", "2", "--micro-batch-size", "8"};
  const std::string save = (folder / "checkpoints").string();
  toy::run_on(1, task, [&](const FinetuneReport& report) {
    write(folder / "whole.json", to_json(report));
  });
  const Words saving{"--save", save, "--load", save};
  // Stops in the middle of the second epoch.
  toy::run_on(
      1,
      task + saving + Words{"--exit-interval", "11"},
      [](const FinetuneReport& report) {
        EXPECT_EQ(report.iterations, 11);
        EXPECT_EQ(report.epochs.size(), 1U);
      });
  toy::run_on(1, task + saving, [&](const FinetuneReport& report) {
    EXPECT_EQ(report.iterations, 16);
    write(folder / "rest.json", to_json(report));
  });
  const json whole = read(folder / "whole.json");
  const json rest = read(folder / "rest.json");
  ASSERT_EQ(rest["losses"].size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(rest["losses"][i], whole["losses"][11 + i]) << i;
  }
  ASSERT_EQ(rest["epochs"].size(), 1U);
  EXPECT_EQ(rest["epochs"][0], whole["epochs"][1]);

  // From the same place on two ranks, with the weights divided among them.
  toy::run_on(
      2,
      task +
          Words{
              "--load",
              save,
              "--ckpt-step",
              "11",
              "--micro-batch-size",
              "4",
              "--zero-stage",
              "3"},
      [&](const FinetuneReport& report) {
        ASSERT_EQ(report.losses.size(), 5U);
        for (std::size_t i = 0; i < 5; ++i) {
          EXPECT_NEAR(
              report.losses[i],
              whole["losses"][11 + i].get<double>(),
              1e-5)
              << i;
        }
      });

  // Evaluation alone, of the same weights, over two ranks, with predictions.
  const Words evaluation = mnli(folder, 64) +
      Words{"--epochs", "0", "--load", save, "--micro-batch-size", "3"};
  toy::run_on(2, evaluation, [&](const FinetuneReport& report) {
    write(folder / "evaluated.json", to_json(report));
    EXPECT_TRUE(report.losses.empty());
  });
  json evaluated = read(folder / "evaluated.json");
  ASSERT_EQ(evaluated["epochs"].size(), 1U);
  EXPECT_EQ(evaluated["epochs"][0]["epoch"], -1);
  json& files = evaluated["epochs"][0]["files"];
  EXPECT_EQ(files[0]["predictions"].size(), 37U);
  EXPECT_EQ(files[0]["predictions"][36]["id"], 36);
  const auto values =
      files[0]["predictions"][0]["values"].get<std::vector<double>>();
  EXPECT_NEAR(values[0] + values[1] + values[2], 1, 1e-12);
  for (json& file : files) {
    file.erase("predictions");
  }
  EXPECT_EQ(files, whole["epochs"][1]["files"]);

  // The model as transformers has it answers alike.
  const std::string exported = (folder / "exported").string();
  checkpoints::convert(
      {.input = save,
       .output = exported,
       .to = checkpoints::CheckpointFormat::huggingface});
  const Words foreign = mnli(folder, 64) +
      Words{
          "--epochs",
          "0",
          "--pretrained-checkpoint",
          exported,
          "--micro-batch-size",
          "8"};
  toy::run_on(1, foreign, [&](const FinetuneReport& report) {
    for (std::size_t i = 0; i < files.size(); ++i) {
      EXPECT_EQ(
          report.epochs.at(0).files.at(i).scores.correct,
          files[i]["correct"].get<std::int64_t>());
    }
  });
}

} // namespace
} // namespace cairn::evaluate::finetune_test
