#include "evaluate/finetune/finetune_task.h"

#include "evaluate/internal/finetune.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>

namespace cairn::evaluate {

const std::vector<FinetuneTask>& finetune_tasks() {
  using Classes = std::vector<std::string_view>;
  static const Classes numbers{"0", "1"};
  static const Classes entailment{"entailment", "not_entailment"};
  static const std::vector<FinetuneTask> tasks{
      {.name = "RACE", .choices = 4},
      {.name = "MNLI",
       .classes = Classes{"contradiction", "entailment", "neutral"}},
      {.name = "QQP", .classes = numbers, .measure = Measure::accuracy_and_f1},
      {.name = "QNLI", .classes = entailment},
      {.name = "SST-2", .classes = numbers},
      {.name = "CoLA", .classes = numbers, .measure = Measure::matthews},
      {.name = "STS-B", .measure = Measure::correlation},
      {.name = "MRPC", .classes = numbers, .measure = Measure::accuracy_and_f1},
      {.name = "RTE", .classes = entailment}};
  return tasks;
}

bool is_finetune_task(std::string_view task) {
  return std::ranges::find(finetune_tasks(), task, &FinetuneTask::name) !=
      finetune_tasks().end();
}

const FinetuneTask& finetune_task(std::string_view name) {
  const auto& tasks = finetune_tasks();
  const auto found = std::ranges::find(tasks, name, &FinetuneTask::name);
  if (found == tasks.end()) {
    std::vector<std::string_view> names;
    for (const FinetuneTask& task : tasks) {
      names.push_back(task.name);
    }
    throw ConfigError(
        {.what = fmt::format("there is no task \"{}\" to fine-tune for", name),
         .where = "--task",
         .remedy = fmt::format("choose one of {}", fmt::join(names, ", "))});
  }
  return *found;
}

std::string name_of_data(const FinetuneTask& task, std::string_view path) {
  if (const auto at = path.rfind(task.name); at != std::string_view::npos) {
    const std::string_view rest = path.substr(at + task.name.size());
    if (rest.find_first_not_of('/') != std::string_view::npos) {
      path = rest;
    }
  }
  for (const std::string_view ending : {".tsv", ".txt"}) {
    if (path.ends_with(ending) && !task.is_multiple_choice()) {
      path.remove_suffix(ending.size());
    }
  }
  while (path.starts_with('/')) {
    path.remove_prefix(1);
  }
  while (path.ends_with('/')) {
    path.remove_suffix(1);
  }
  std::string name(path);
  std::ranges::replace(name, task.is_multiple_choice() ? '/' : '_', '-');
  return name;
}

} // namespace cairn::evaluate
