#pragma once

#include "nn/attention/fused_attention.h"

#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>
#include <vector>

// How a node of autograd keeps DroppedScores: the tensors beside the others
// that it saves, the numbers in a capsule.

namespace cairn::nn {

struct DroppedCapsule : torch::CustomClassHolder {
  explicit DroppedCapsule(DroppedScores given) : numbers(std::move(given)) {}
  DroppedScores numbers; ///< without tensors
};

/// Keeps the numbers; the tensors are for save_for_backward().
inline std::vector<at::Tensor> keep_dropped(
    torch::autograd::AutogradContext& context,
    const DroppedScores& how) {
  DroppedScores numbers = how;
  for (at::Tensor* each :
       {&numbers.mask,
        &numbers.query_documents,
        &numbers.key_documents,
        &numbers.placed.by_distance,
        &numbers.placed.by_key,
        &numbers.noise.samples}) {
    *each = at::Tensor();
  }
  context.saved_data["dropped"] = c10::IValue::make_capsule(
      c10::make_intrusive<DroppedCapsule>(std::move(numbers)));
  return {
      how.mask,
      how.query_documents,
      how.key_documents,
      how.placed.by_distance,
      how.placed.by_key,
      how.noise.samples};
}

/// What keep_dropped() kept; its tensors are saved from number `first` on.
inline DroppedScores kept_dropped(
    torch::autograd::AutogradContext& context,
    const torch::autograd::variable_list& saved,
    std::size_t first) {
  const auto capsule = context.saved_data["dropped"].toCapsule();
  DroppedScores how = static_cast<DroppedCapsule&>(*capsule).numbers;
  how.mask = saved[first];
  how.query_documents = saved[first + 1];
  how.key_documents = saved[first + 2];
  how.placed = {saved[first + 3], saved[first + 4]};
  how.noise.samples = saved[first + 5];
  return how;
}

} // namespace cairn::nn
