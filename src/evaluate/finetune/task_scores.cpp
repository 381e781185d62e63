#include "evaluate/finetune/task_scores.h"

#include "evaluate/finetune/measures.h"
#include "evaluate/result_text.h"

#include <ATen/ops/softmax.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace cairn::evaluate {
namespace {

/// The rows of a matrix of doubles on the CPU.
class Rows {
 public:
  explicit Rows(const at::Tensor& x)
      : x_(x.to(at::kCPU, at::kDouble).contiguous()) {}

  std::int64_t count() const { return x_.size(0); }
  std::span<const double> operator[](std::int64_t row) const {
    return {
        x_.const_data_ptr<double>() + row * x_.size(1),
        static_cast<std::size_t>(x_.size(1))};
  }

 private:
  at::Tensor x_;
};

std::vector<std::int64_t> most_likely(const Rows& rows) {
  std::vector<std::int64_t> result;
  for (std::int64_t i = 0; i < rows.count(); ++i) {
    result.push_back(std::ranges::max_element(rows[i]) - rows[i].begin());
  }
  return result;
}

void add_correlations(
    TaskScores& scores,
    const Rows& rows,
    std::span<const double> labels) {
  std::vector<double> predicted;
  for (std::int64_t i = 0; i < rows.count(); ++i) {
    predicted.push_back(rows[i].front());
  }
  scores.pearson = pearson_correlation(predicted, labels);
  scores.spearman = spearman_correlation(predicted, labels);
}

std::string share(std::int64_t correct, std::int64_t total) {
  return fmt::format(
      "correct / total = {} / {} = {:.4f} %",
      correct,
      total,
      total == 0
          ? 0
          : static_cast<double>(correct) * 100 / static_cast<double>(total));
}

} // namespace

TaskScores scores_of(
    const FinetuneTask& task,
    const at::Tensor& outputs,
    std::span<const double> labels) {
  TaskScores scores;
  const Rows rows(outputs);
  if (task.measure == Measure::correlation) {
    add_correlations(scores, rows, labels);
    return scores;
  }
  const std::vector<std::int64_t> predicted = most_likely(rows);
  const std::vector<std::int64_t> right(labels.begin(), labels.end());
  std::int64_t correct = 0;
  for (std::size_t i = 0; i < right.size(); ++i) {
    correct += predicted[i] == right[i] ? 1 : 0;
  }
  scores.correct = correct;
  if (task.measure == Measure::accuracy_and_f1) {
    scores.f1 = f1_score(BinaryCounts::of(predicted, right));
  } else if (task.measure == Measure::matthews) {
    scores.matthews = matthews_correlation(BinaryCounts::of(predicted, right));
  }
  return scores;
}

std::vector<Prediction> predictions_of(
    const FinetuneTask& task,
    const at::Tensor& outputs,
    std::span<const std::int64_t> ids) {
  const Rows rows(
      task.is_regression() ? outputs : at::softmax(outputs.to(at::kDouble), 1));
  std::vector<Prediction> result;
  for (std::int64_t i = 0; i < rows.count(); ++i) {
    const std::span<const double> row = rows[i];
    result.push_back(
        {.id = ids[static_cast<std::size_t>(i)],
         .values = {row.begin(), row.end()}});
  }
  return result;
}

std::string file_line(
    const FinetuneTask& task,
    std::int64_t epoch,
    const FileResult& result,
    double seconds) {
  const TaskScores& scores = result.scores;
  std::string line =
      fmt::format(" > |epoch: {}| metrics for {}: ", epoch, result.name);
  if (!result.labelled) {
    line += fmt::format("{} samples without labels", result.samples);
  } else if (task.measure == Measure::correlation) {
    line += fmt::format(
        "pearson = {} spearmanr = {} corr = {}",
        python_number(*scores.pearson),
        python_number(*scores.spearman),
        python_number((*scores.pearson + *scores.spearman) / 2));
  } else if (task.measure == Measure::matthews) {
    line += fmt::format(
        "mcc = {}, {}",
        python_number(*scores.matthews),
        share(*scores.correct, result.samples));
  } else {
    line += share(*scores.correct, result.samples);
  }
  if (scores.f1) {
    line += fmt::format(", f1 = {:.6f}", *scores.f1);
  }
  return line + fmt::format(", elapsed time (sec): {:.3f}", seconds);
}

std::string overall_line(const EpochResult& result) {
  std::int64_t correct = 0;
  std::int64_t total = 0;
  for (const FileResult& file : result.files) {
    if (file.scores.correct) {
      correct += *file.scores.correct;
      total += file.samples;
    }
  }
  return fmt::format(
      " >> |epoch: {}| overall: {}",
      result.epoch,
      share(correct, total));
}

} // namespace cairn::evaluate
