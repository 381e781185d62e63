#pragma once

#include <ATen/Functions.h>
#include <cairn/distributed/process_group.h>
#include <cairn/nn/parameter_slices.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace cairn::testing {

/// A whole tensor from the slices that the ranks hold, without padding.
inline at::Tensor joined(
    const at::Tensor& local,
    const nn::ParameterSlice& slice,
    const distributed::ProcessGroup& group) {
  at::Tensor whole = at::zeros(slice.whole, local.options());
  at::Tensor target = whole;
  at::Tensor source = local;
  for (std::int64_t dim = 0; dim < whole.dim(); ++dim) {
    const auto at = static_cast<std::size_t>(dim);
    const std::int64_t begin = std::min(slice.offset[at], slice.whole[at]);
    const std::int64_t length =
        std::min(local.size(dim), slice.whole[at] - begin);
    target = target.narrow(dim, begin, length);
    source = source.narrow(dim, 0, length);
  }
  target.copy_(source);
  return group.all_reduce(whole).wait();
}

/// The whole model's gradients, put together from those of the ranks.
inline std::map<std::string, at::Tensor> whole_gradients(
    const torch::nn::Module& model,
    const distributed::ProcessGroup& group) {
  std::map<std::string, at::Tensor> gradients;
  for (const auto& each : model.named_parameters()) {
    const at::Tensor& gradient = each.value().grad();
    gradients[each.key()] =
        gradient.defined() ? gradient.clone() : at::zeros_like(each.value());
  }
  for (const std::string& name : nn::partial_gradients(model)) {
    group.all_reduce(gradients.at(name)).wait();
  }
  for (const auto& slice : nn::parameter_slices(model)) {
    at::Tensor& gradient = gradients.at(slice.name);
    gradient = joined(gradient, slice, group);
  }
  return gradients;
}

} // namespace cairn::testing
