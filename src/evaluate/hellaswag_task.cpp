#include "evaluate/hellaswag_text.h"
#include "evaluate/result_text.h"
#include "evaluate/task.h"
#include "evaluate/task_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace cairn::evaluate {
namespace {

/// The rows of one choice, and the lengths by which their losses are divided.
struct Choice {
  std::size_t first_row = 0;
  std::vector<double> lengths;
  std::size_t right = 0;
};

/// Characters, as Python counts them.
double characters(std::string_view text) {
  const auto begins = [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  };
  return static_cast<double>(std::ranges::count_if(text, begins));
}

class HellaSwagTask : public Task {
 public:
  HellaSwagTask(OwnedRows rows, std::vector<Choice> choices, bool plain)
      : rows_(std::move(rows)), choices_(std::move(choices)), plain_(plain) {}

  std::span<const TextRow> rows() const override { return rows_.rows(); }

  TaskResult result(std::span<const RowScore> scores) const override {
    std::int64_t correct = 0;
    std::int64_t by_length = 0;
    for (const Choice& choice : choices_) {
      std::vector<double> losses;
      std::vector<double> divided;
      for (std::size_t i = 0; i < choice.lengths.size(); ++i) {
        losses.push_back(scores[choice.first_row + i].loss);
        divided.push_back(losses.back() / choice.lengths[i]);
      }
      const auto chosen = [](const std::vector<double>& all) {
        return static_cast<std::size_t>(
            std::ranges::min_element(all) - all.begin());
      };
      correct += chosen(losses) == choice.right ? 1 : 0;
      by_length += chosen(divided) == choice.right ? 1 : 0;
    }
    const auto examples = static_cast<double>(choices_.size());
    const double accuracy = static_cast<double>(correct) / examples;
    const double normalized = static_cast<double>(by_length) / examples;
    TaskResult result{
        .line =
            result_heading("HELLASWAG") +
            fmt::format(
                "number correct: {} | total examples: {} | avg accuracy: {} | "
                "normalized accuracy: {}",
                result_number(static_cast<double>(correct)),
                result_number(examples),
                result_number(accuracy),
                result_number(normalized))};
    result.values = {
        {"number_correct", correct},
        {"number_correct_normalized", by_length},
        {"total_examples", choices_.size()},
        {"avg_accuracy", accuracy},
        {"normalized_accuracy", normalized},
        {"normalized_by", plain_ ? "tokens" : "characters"},
        {"cut_rows", rows_.cut()}};
    return result;
  }

 private:
  OwnedRows rows_;
  std::vector<Choice> choices_;
  bool plain_;
};

} // namespace

std::unique_ptr<Task> hellaswag_task(
    const HellaSwagOptions& options,
    ModelText& text,
    const Logger& logger) {
  OwnedRows rows(options.length);
  std::vector<Choice> choices;
  for_each_object(
      options.file,
      [&](const nlohmann::json& object, const std::string& where) {
        const EndingsChoice read =
            hellaswag_choice(object, options.plain, where);
        Choice choice{.first_row = rows.rows().size(), .right = read.right};
        for (const std::string& ending : read.endings) {
          TokenPair row = text.pair(read.context, " " + ending);
          const double length = options.plain ? static_cast<double>(row.scored)
                                              : characters(ending);
          choice.lengths.push_back(std::max(length, 1.0));
          rows.add(std::move(row));
        }
        choices.push_back(std::move(choice));
      });
  logger.info(
      "found {} samples ({})",
      choices.size(),
      options.plain ? "texts as they are, losses per token"
                    : "texts as lm-evaluation-harness makes them, losses per "
                      "character");
  rows.log_cuts(logger);
  return std::make_unique<HellaSwagTask>(
      std::move(rows),
      std::move(choices),
      options.plain);
}

} // namespace cairn::evaluate
