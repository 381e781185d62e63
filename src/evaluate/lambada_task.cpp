#include "evaluate/result_text.h"
#include "evaluate/task.h"
#include "evaluate/task_file.h"

#include "text/internal/python_text.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <cmath>
#include <string>
#include <string_view>
#include <utility>

namespace cairn::evaluate {
namespace {

class LambadaTask : public Task {
 public:
  explicit LambadaTask(OwnedRows rows) : rows_(std::move(rows)) {}

  std::span<const TextRow> rows() const override { return rows_.rows(); }
  bool asks_for_likeliest() const override { return true; }

  TaskResult result(std::span<const RowScore> scores) const override {
    std::int64_t correct = 0;
    double loss = 0;
    for (const RowScore& score : scores) {
      correct += score.all_likeliest ? 1 : 0;
      loss += score.loss;
    }
    const auto examples = static_cast<double>(scores.size());
    const double accuracy = static_cast<double>(correct) / examples;
    TaskResult result{
        .line =
            result_heading("LAMBADA") +
            fmt::format(
                "number correct: {} | total examples: {} | avg accuracy: {}",
                result_number(static_cast<double>(correct)),
                result_number(examples),
                result_number(accuracy))};
    result.values = {
        {"number_correct", correct},
        {"total_examples", scores.size()},
        {"avg_accuracy", accuracy},
        {"avg_loss", loss / examples},
        {"ppl", std::exp(loss / examples)},
        {"cut_examples", rows_.cut()}};
    return result;
  }

 private:
  OwnedRows rows_;
};

/// The text before the last word, and that word after a blank.
TokenPair whole_word_pair(std::string_view all, ModelText& text) {
  std::string_view last;
  text::python::for_each_word(all, [&](std::string_view word) { last = word; });
  if (last.empty()) {
    return {};
  }
  const std::string_view before = text::python::stripped(
      all.substr(0, static_cast<std::size_t>(last.data() - all.data())));
  return before.empty() ? TokenPair{}
                        : text.pair(before, std::string(" ") += last);
}

TokenPair last_token_pair(std::string_view all, ModelText& text) {
  TokenPair pair{.tokens = text.encode(all), .scored = 1};
  return pair.tokens.size() < 2 ? TokenPair{} : std::move(pair);
}

} // namespace

std::unique_ptr<Task> lambada_task(
    const LambadaOptions& options,
    ModelText& text,
    const Logger& logger) {
  OwnedRows rows(options.length);
  for_each_object(
      options.file,
      [&](const nlohmann::json& object, const std::string& where) {
        const std::string all = text_under(object, "text", where);
        TokenPair row = options.whole_word ? whole_word_pair(all, text)
                                           : last_token_pair(all, text);
        if (row.tokens.empty()) {
          throw DataError(
              {.what = "a text with nothing before its last word",
               .where = where});
        }
        rows.add(std::move(row));
      });
  logger.info("found {} samples", rows.rows().size());
  rows.log_cuts(logger);
  return std::make_unique<LambadaTask>(std::move(rows));
}

} // namespace cairn::evaluate
