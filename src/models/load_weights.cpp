#include "models/internal/load_weights.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <cairn/base/error.h>
#include <cairn/model/parameters.h>
#include <cairn/nn/parameter_slices.h>
#include <fmt/format.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace cairn::models {
namespace {

void check_known(
    const model::ModelDescription& description,
    const checkpoints::NamedTensors& tensors) {
  std::set<std::string> known;
  for (const auto& parameter : model::model_parameters(description)) {
    known.insert(parameter.name);
  }
  for (const auto& [name, tensor] : tensors) {
    if (!known.contains(name)) {
      throw CheckpointError(
          {.what = "a tensor that the model has no parameter for",
           .values = name});
    }
  }
}

void copy_slice(
    at::Tensor& parameter,
    at::Tensor whole,
    const nn::ParameterSlice& slice) {
  at::Tensor target = parameter;
  for (std::int64_t dim = 0; dim < whole.dim(); ++dim) {
    const auto at = static_cast<std::size_t>(dim);
    const std::int64_t begin = std::min(slice.offset[at], slice.whole[at]);
    const std::int64_t length =
        std::min(parameter.size(dim), slice.whole[at] - begin);
    whole = whole.narrow(dim, begin, length);
    target = target.narrow(dim, 0, length);
  }
  target.copy_(whole);
}

} // namespace

void load_weights(
    torch::nn::Module& model,
    const model::ModelDescription& description,
    const checkpoints::NamedTensors& tensors) {
  const at::NoGradGuard no_grad;
  check_known(description, tensors);
  std::map<std::string, const checkpoints::LazyTensor*> by_name;
  for (const auto& [name, tensor] : tensors) {
    by_name[name] = &tensor;
  }
  std::map<std::string, nn::ParameterSlice> slices;
  for (nn::ParameterSlice& slice : nn::parameter_slices(model)) {
    const std::string name = slice.name;
    slices[name] = std::move(slice);
  }
  for (auto& each : model.named_parameters()) {
    const std::string& name = each.key();
    at::Tensor& parameter = each.value();
    const auto found = by_name.find(name);
    if (found == by_name.end()) {
      throw CheckpointError(
          {.what = "no tensor for a parameter of the model", .values = name});
    }
    const auto slice = slices.contains(name)
        ? slices[name]
        : nn::ParameterSlice{
              name,
              parameter.sizes().vec(),
              std::vector<std::int64_t>(
                  static_cast<std::size_t>(parameter.dim()))};
    if (found->second->shape != slice.whole) {
      throw CheckpointError(
          {.what = "a tensor of another shape than the model's parameter",
           .where = name,
           .values = fmt::format(
               "[{}] and [{}]",
               fmt::join(found->second->shape, ", "),
               fmt::join(slice.whole, ", "))});
    }
    copy_slice(parameter, found->second->load(), slice);
  }
}

} // namespace cairn::models
