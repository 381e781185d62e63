#pragma once

#include "evaluate/finetune/finetune_task.h"
#include "evaluate/internal/finetune.h"

#include <ATen/core/Tensor.h>

#include <span>
#include <string>
#include <vector>

namespace cairn::evaluate {

/// The measures of the task. `outputs`: [samples, task.scores()], of the model.
TaskScores scores_of(
    const FinetuneTask& task,
    const at::Tensor& outputs,
    std::span<const double> labels);

/// Probabilities of the classes or choices, or the predicted value.
std::vector<Prediction> predictions_of(
    const FinetuneTask& task,
    const at::Tensor& outputs,
    std::span<const std::int64_t> ids);

/// The line about one file, as Megatron prints it:
///
///   ` > |epoch: 0| metrics for dev-matched: correct / total = 7 / 9 =
///   77.7778 %, elapsed time (sec): 0.123`
std::string file_line(
    const FinetuneTask& task,
    std::int64_t epoch,
    const FileResult& result,
    double seconds);

/// The line about all labelled files:
///
///   ` >> |epoch: 0| overall: correct / total = 7 / 9 = 77.7778 %`
std::string overall_line(const EpochResult& result);

} // namespace cairn::evaluate
