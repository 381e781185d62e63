#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::evaluate {

/// The measure of a task: the share of right answers, alone or with F1 or
/// Matthews' coefficient, or the correlation of predicted numbers with labels.
enum class Measure { accuracy, accuracy_and_f1, matthews, correlation };

/// A labelled task.
struct FinetuneTask {
  std::string_view name; ///< "MNLI", as --task says it
  /// Spellings of the classes in the files, in the order of their numbers;
  /// empty where the label is a number that is to be predicted, or a choice.
  std::vector<std::string_view> classes{};
  std::int64_t choices = 1; ///< texts of one sample, of which one is right
  Measure measure = Measure::accuracy;

  bool is_multiple_choice() const { return choices > 1; }
  bool is_regression() const {
    return classes.empty() && !is_multiple_choice();
  }
  /// Outputs of the model's head for one text.
  std::int64_t outputs() const {
    return classes.empty() ? 1 : static_cast<std::int64_t>(classes.size());
  }
  /// Scores of one sample: of its classes or choices, or a value.
  std::int64_t scores() const {
    return is_multiple_choice() ? choices : outputs();
  }
};

const std::vector<FinetuneTask>& finetune_tasks();

/// The task of that name. Throws ConfigError, naming all tasks.
const FinetuneTask& finetune_task(std::string_view name);

/// The name of a data file within its task, as Megatron prints it: of
/// "glue/MNLI/dev_matched.tsv" it is "dev-matched".
std::string name_of_data(const FinetuneTask& task, std::string_view path);

} // namespace cairn::evaluate
