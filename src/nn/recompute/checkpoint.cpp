#include <cairn/nn/checkpoint.h>

#include <cairn/base/error.h>
#include "nn/recompute/boundary.h"
#include "nn/recompute/checkpoint_node.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

namespace cairn::nn::detail {
namespace {

// Versions of the tensors. Inference tensors and undefined ones have none.
std::vector<std::int64_t> versions_of(const Tensors& tensors) {
  std::vector<std::int64_t> versions;
  for (const at::Tensor& each : tensors) {
    versions.push_back(
        each.defined() && !each.is_inference() ? each._version() : 0);
  }
  return versions;
}

// Refuses inputs that were changed: the function would start from other values
// in backward, and later uses of the input would get a wrong gradient.
void refuse_changed_inputs(
    const std::vector<std::int64_t>& before,
    const std::vector<std::int64_t>& after) {
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i] != after[i]) {
      throw Error(
          {.what = fmt::format(
               "a checkpointed function changed its tensor input {} in place",
               i),
           .remedy = "let it work on a clone()"});
    }
  }
}

} // namespace

Tensors run_checkpointed(
    const CheckpointOptions& options,
    const Tensors& inputs,
    const TensorFunction& first,
    TensorFunction again) {
  const Boundary boundary(options, "forward");
  const std::vector<std::int64_t> versions = versions_of(inputs);
  const std::shared_ptr<CheckpointBackward> node(
      new CheckpointBackward(options, inputs, std::move(again)),
      torch::autograd::deleteNode);
  Tensors outputs;
  {
    const at::NoGradGuard no_grad;
    outputs = first(inputs);
  }
  refuse_changed_inputs(versions, versions_of(inputs));
  node->adopt(outputs, inputs);
  boundary.end();
  return outputs;
}

} // namespace cairn::nn::detail
