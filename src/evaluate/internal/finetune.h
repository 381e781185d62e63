#pragma once

#include <cairn/base/log.h>
#include <cairn/config/config.h>
#include <cairn/distributed/init_distributed.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::evaluate {

/// Fine-tuning of a BERT on a labelled task, and its evaluation.
struct FinetuneOptions {
  /// The flags --task, --train-data, --valid-data, --epochs,
  /// --pretrained-checkpoint, and all that training takes.
  config::Config config;
  /// True: the last batch of an epoch is trained on though it is smaller.
  bool keep_last_batch = false;
  /// Versions of the program and its libraries, for the log of the run.
  std::vector<std::pair<std::string, std::string>> versions{};
};

/// Measures of predictions against labels. A task has some of them.
struct TaskScores {
  std::optional<std::int64_t> correct{}; ///< right classes or choices
  std::optional<double> f1{};            ///< of class 1
  std::optional<double> matthews{};
  std::optional<double> pearson{};
  std::optional<double> spearman{};
};

struct Prediction {
  std::int64_t id = 0; ///< the sample's in its file
  /// The probability of each class or choice, or the value that was predicted.
  std::vector<double> values;
};

/// The evaluation of one file or folder of --valid-data.
struct FileResult {
  std::string name; ///< "dev-matched"
  std::string path;
  std::int64_t samples = 0;
  bool labelled = true;
  TaskScores scores{};
  /// Predictions in the order of the file; with --epochs 0 only.
  std::vector<Prediction> predictions{};
};

/// The evaluation after an epoch.
struct EpochResult {
  std::int64_t epoch = 0; ///< counted from 0; -1 where nothing was trained
  std::vector<FileResult> files;
};

struct FinetuneReport {
  std::string task;
  std::int64_t iterations = 0; ///< updates so far, earlier runs included
  std::vector<double> losses;  ///< mean loss of each update of this run
  std::vector<EpochResult> epochs;
};

/// True for RACE and the tasks of GLUE.
bool is_finetune_task(std::string_view task);

/// Fine-tunes and evaluates on every rank, as Megatron's tasks/main.py does.
/// Everything that can be checked is checked before anything is allocated.
/// Throws ConfigError, DataError and CheckpointError.
FinetuneReport finetune(
    const FinetuneOptions& options,
    const distributed::World& world,
    const Logger& logger);

/// The report as a JSON object.
std::string to_json(const FinetuneReport& report);

} // namespace cairn::evaluate
