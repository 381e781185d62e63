#include "evaluate/finetune/measures.h"

#include "evaluate/finetune/task_scores.h"

#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace cairn::evaluate::measures_test {
namespace {

// The expected values are those of scikit-learn 1.9.1 and SciPy 1.17.1.

TEST(Measures, AreScikitLearns) {
  const std::vector<std::int64_t> predicted{1, 0, 1, 1, 0, 0, 1, 0, 1, 1, 0, 1};
  const std::vector<std::int64_t> labels{1, 0, 0, 1, 0, 1, 1, 0, 1, 0, 1, 1};
  const BinaryCounts counts = BinaryCounts::of(predicted, labels);
  EXPECT_DOUBLE_EQ(f1_score(counts), 0.7142857142857143);
  EXPECT_NEAR(matthews_correlation(counts), 0.3142857142857143, 1e-15);
}

TEST(Measures, AreZeroWhereOneClassAloneIsThere) {
  const std::vector<std::int64_t> none{0, 0};
  EXPECT_EQ(f1_score(BinaryCounts::of(none, none)), 0);
  const std::vector<std::int64_t> ones{1, 1, 1};
  const std::vector<std::int64_t> labels{0, 1, 1};
  EXPECT_EQ(matthews_correlation(BinaryCounts::of(ones, labels)), 0);
}

TEST(Measures, AreSciPys) {
  const std::vector<double> x{2.5, 0.1, 4.75, 3.3, 3.3, 1.0, 5.0, 0.1};
  const std::vector<double> y{3.0, 0.5, 4.5, 2.0, 3.8, 1.0, 4.5, 0.0};
  EXPECT_NEAR(pearson_correlation(x, y), 0.9496458395549193, 1e-14);
  EXPECT_NEAR(spearman_correlation(x, y), 0.9454719096527426, 1e-14);
  const std::vector<double> same(8, 2.0);
  EXPECT_TRUE(std::isnan(pearson_correlation(x, same)));
  EXPECT_TRUE(std::isnan(spearman_correlation(same, y)));
}

FileResult result_of(const FinetuneTask& task, const TaskScores& scores) {
  return {
      .name = "dev",
      .path = std::string(task.name),
      .samples = 4,
      .scores = scores};
}

TEST(Measures, OfATaskAreThoseOfItsPaper) {
  const at::Tensor outputs =
      at::tensor({0.9, 0.1, 0.2, 0.8, 0.3, 0.7, 0.6, 0.4}).view({4, 2});
  const std::vector<double> labels{0, 1, 0, 0};
  const FinetuneTask& mrpc = finetune_task("MRPC");
  const TaskScores both = scores_of(mrpc, outputs, labels);
  EXPECT_EQ(both.correct, 3);
  EXPECT_NEAR(both.f1.value(), 2.0 / 3, 1e-15);
  EXPECT_EQ(
      file_line(mrpc, 2, result_of(mrpc, both), 1.5),
      " > |epoch: 2| metrics for dev: correct / total = 3 / 4 = 75.0000 %, f1 "
      "= 0.666667, elapsed time (sec): 1.500");
  const TaskScores cola = scores_of(finetune_task("CoLA"), outputs, labels);
  EXPECT_NEAR(cola.matthews.value(), 0.5773502691896258, 1e-15);
  EXPECT_FALSE(cola.f1);
  const TaskScores rte = scores_of(finetune_task("RTE"), outputs, labels);
  EXPECT_EQ(rte.correct, 3);
  EXPECT_FALSE(rte.f1 || rte.matthews || rte.pearson);

  const FinetuneTask& sts = finetune_task("STS-B");
  const TaskScores values =
      scores_of(sts, at::tensor({1.0, 2.0, 4.0}).view({3, 1}), {{0.5, 3, 3.5}});
  EXPECT_NEAR(values.pearson.value(), 0.8485552916276634, 1e-12);
  EXPECT_NEAR(values.spearman.value(), 1, 1e-15);
  EXPECT_FALSE(values.correct);
}

TEST(Measures, OfAllFilesCountSamplesOnce) {
  EpochResult epoch{.epoch = 1};
  epoch.files.push_back({.samples = 4, .scores = {.correct = 3}});
  epoch.files.push_back({.samples = 5, .scores = {.correct = 4}});
  epoch.files.push_back({.samples = 7, .labelled = false});
  EXPECT_EQ(
      overall_line(epoch),
      " >> |epoch: 1| overall: correct / total = 7 / 9 = 77.7778 %");
}

} // namespace
} // namespace cairn::evaluate::measures_test
