#pragma once

#include "evaluate/finetune/finetune_task.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace cairn::evaluate {

/// A sample of a task's file, as text.
struct TaskRow {
  struct Texts {
    std::string a;
    std::optional<std::string> b{};
  };

  std::int64_t id = 0;
  /// One pair of texts; several where the sample is a choice.
  std::vector<Texts> texts;
  /// The number of the class or choice, or the value; unset in test data.
  std::optional<double> label{};
};

using TakeRow = std::function<void(TaskRow row)>;

/// The number and kind of rows that were read from a file.
struct TaskFile {
  std::int64_t rows = 0;
  bool labelled = true;
  std::int64_t skipped = 0;    ///< damaged rows, where a task allows them
  std::string first_skipped{}; ///< "file:line: reason"
};

/// Reads a file of GLUE in its original, tab-separated format. Test files,
/// which have no labels, are known by their header. Throws DataError with file
/// and line for a row that is not as the header says, for an unknown label and
/// for text that is not UTF-8.
TaskFile read_glue_file(
    const FinetuneTask& task,
    const std::filesystem::path& path,
    const TakeRow& take);

/// Reads a folder of RACE: its .txt files in the order of their names, each
/// line a JSON object with an article, its questions, their options and the
/// answers. Text `a` is question and option, text `b` the article. Throws
/// DataError with file and line.
TaskFile read_race_folder(
    const FinetuneTask& task,
    const std::filesystem::path& folder,
    const TakeRow& take);

} // namespace cairn::evaluate
