#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/optim/group_values.h>
#include <torch/nn/module.h>

#include <vector>

namespace cairn::inline engine {

/// Parameters that are trained alike; what the patch leaves open is the
/// optimizer's.
struct ParameterGroup {
  std::vector<at::Tensor> parameters;
  optim::GroupValuesPatch values{};
};

/// Megatron's rule: no weight decay on biases and one-dimensional parameters.
std::vector<ParameterGroup> no_decay_groups(const torch::nn::Module& module);

} // namespace cairn::engine
