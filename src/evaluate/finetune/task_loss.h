#pragma once

#include "evaluate/finetune/finetune_task.h"

#include <ATen/core/Tensor.h>

namespace cairn::evaluate {

/// The scores of each sample, [samples, task.scores()], fp32, from the head's
/// outputs, which have a row for each text.
at::Tensor sample_scores(const FinetuneTask& task, const at::Tensor& outputs);

/// The mean over the samples of the weighted losses: of the cross entropy, or
/// of the squared error.
at::Tensor task_loss(
    const FinetuneTask& task,
    const at::Tensor& scores,
    const at::Tensor& labels,
    const at::Tensor& weights);

} // namespace cairn::evaluate
