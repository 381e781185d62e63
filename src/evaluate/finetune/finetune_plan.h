#pragma once

#include "evaluate/finetune/finetune_task.h"
#include "evaluate/finetune/starting_model.h"
#include "evaluate/finetune/task_tokenizer.h"
#include "evaluate/internal/finetune.h"

#include <cstdint>

namespace cairn::evaluate {

/// A fine-tuning before its data are read and anything is allocated.
struct FinetunePlan {
  const FinetuneTask& task;
  TaskTokenizer tokenizer;
  StartingModel start;
  std::int64_t epochs = 0; ///< 0: evaluation only
  std::int64_t sequence_length = 0;
};

/// Throws ConfigError for flags that contradict each other or are missing.
FinetunePlan plan_finetuning(const FinetuneOptions& options);

} // namespace cairn::evaluate
