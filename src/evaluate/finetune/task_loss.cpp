#include "evaluate/finetune/task_loss.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/mse_loss.h>

#include <optional>

namespace cairn::evaluate {

at::Tensor sample_scores(const FinetuneTask& task, const at::Tensor& outputs) {
  return outputs.to(at::kFloat).view({-1, task.scores()});
}

at::Tensor task_loss(
    const FinetuneTask& task,
    const at::Tensor& scores,
    const at::Tensor& labels,
    const at::Tensor& weights) {
  const at::Tensor losses = task.is_regression()
      ? at::mse_loss(scores.view({-1}), labels, at::Reduction::None)
      : at::cross_entropy_loss(
            scores,
            labels,
            std::nullopt,
            at::Reduction::None);
  return (losses * weights).mean();
}

} // namespace cairn::evaluate
