#pragma once

#include "evaluate/finetune/finetune_task.h"
#include "evaluate/finetune/sample_tokens.h"
#include "evaluate/finetune/task_row.h"
#include "evaluate/finetune/task_tokenizer.h"

#include <ATen/core/Tensor.h>
#include <cairn/base/log.h>
#include <cairn/models/transformer.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cairn::evaluate {

/// A place of a micro batch that no sample fills.
inline constexpr std::int64_t no_sample = -1;

/// A micro batch. A sample with several choices has one row for each.
struct TaskBatch {
  models::ModelInput input;
  at::Tensor labels;  ///< [samples], integers; the values of a regression
  at::Tensor weights; ///< [samples], fp32: 0 where there is no sample
};

/// The samples of one or several files or folders, encoded and in memory.
class TaskData {
 public:
  /// The samples of one path: those from `begin` up to `end`.
  struct File {
    std::string path;
    std::int64_t begin = 0;
    std::int64_t end = 0;
    bool labelled = true;
  };
  struct Options {
    const FinetuneTask& task;
    TaskTokenizer tokenizer;
    std::int64_t sequence_length = 0;
  };

  /// Reads the files, and says so. Throws DataError.
  TaskData(
      Options options,
      const std::vector<std::string>& paths,
      const Logger& logger);

  std::int64_t size() const {
    return static_cast<std::int64_t>(samples_.size());
  }
  const std::vector<File>& files() const { return files_; }
  std::int64_t id(std::int64_t sample) const { return at(sample).id; }
  /// 0 where there are no labels.
  double label(std::int64_t sample) const { return at(sample).label; }

  /// The samples at these places, each of the weight; `no_sample` has padding
  /// alone, and no weight.
  TaskBatch batch(std::span<const std::int64_t> samples, double weight = 1)
      const;

 private:
  struct Sample {
    std::int64_t id = 0;
    double label = 0;
    std::vector<EncodedTexts> texts;
  };

  const Sample& at(std::int64_t sample) const {
    return samples_[static_cast<std::size_t>(sample)];
  }
  void read(const std::string& path, const Logger& logger);

  Options options_;
  std::vector<File> files_;
  std::vector<Sample> samples_;
};

} // namespace cairn::evaluate
