#include "models/internal/load_weights.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <cairn/base/error.h>
#include <cairn/model/parameters.h>
#include <cairn/nn/parameter_slices.h>
#include <fmt/format.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace cairn::models {
namespace {

void check_known(
    const torch::nn::Module& model,
    const model::ModelDescription& description,
    const checkpoints::NamedTensors& tensors) {
  std::set<std::string> known;
  for (const auto& each : model.named_parameters()) {
    known.insert(each.key());
  }
  // A stage of a pipeline has a part of the model.
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
    const at::Tensor& parameter,
    at::Tensor whole,
    const nn::ParameterSlice& slice) {
  at::Tensor target = parameter.detach();
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

/// Copies a stretch of a flattened local part to `values`, reading no more rows
/// than it lies in. The part has `sizes`.
void copy_stretch(
    const checkpoints::LazyTensor& stored,
    nn::ParameterSlice slice,
    std::vector<std::int64_t> sizes,
    std::int64_t first,
    const at::Tensor& values) {
  const at::NoGradGuard no_grad;
  if (sizes.empty()) {
    values.copy_(stored.load().view({-1}));
    return;
  }
  const std::int64_t in_row = std::accumulate(
      sizes.begin() + 1,
      sizes.end(),
      std::int64_t{1},
      std::multiplies<>());
  const std::int64_t begin = first / in_row;
  const std::int64_t end = (first + values.numel() - 1) / in_row + 1;
  const auto row_there = [&](std::int64_t row) {
    return std::min(slice.offset[0] + row, slice.whole[0]);
  };
  const std::int64_t begin_there = row_there(begin);
  const std::int64_t end_there = row_there(end);
  sizes[0] = end - begin;
  const at::Tensor rows = at::zeros(sizes, stored.type); // padding stays zero
  if (begin_there < end_there) {
    slice.offset[0] = 0;
    slice.whole[0] = end_there - begin_there;
    copy_slice(rows, stored.open()(begin_there, end_there), slice);
  }
  values.copy_(
      rows.view({-1}).narrow(0, first - begin * in_row, values.numel()));
}

/// A parameter of a model, and the tensor of a checkpoint with its values.
struct Match {
  std::string name;
  at::Tensor parameter;
  const checkpoints::LazyTensor* stored = nullptr;
  nn::ParameterSlice slice;
};

using StartsAnew = std::function<bool(std::string_view name)>;

std::vector<Match> matches_of(
    const torch::nn::Module& model,
    const model::ModelDescription& description,
    const checkpoints::NamedTensors& tensors,
    const StartsAnew& starts_anew = {}) {
  check_known(model, description, tensors);
  std::map<std::string, const checkpoints::LazyTensor*> by_name;
  for (const auto& [name, tensor] : tensors) {
    by_name[name] = &tensor;
  }
  std::map<std::string, nn::ParameterSlice> slices;
  for (nn::ParameterSlice& slice : nn::parameter_slices(model)) {
    const std::string name = slice.name;
    slices[name] = std::move(slice);
  }
  std::vector<Match> matches;
  for (const auto& each : model.named_parameters()) {
    const std::string& name = each.key();
    const at::Tensor& parameter = each.value();
    const auto found = by_name.find(name);
    if (found == by_name.end() && starts_anew && starts_anew(name)) {
      continue;
    }
    if (found == by_name.end()) {
      throw CheckpointError(
          {.what = "no tensor for a parameter of the model", .values = name});
    }
    matches.push_back(
        {name,
         parameter,
         found->second,
         slices.contains(name)
             ? slices[name]
             : nn::ParameterSlice{
                   name,
                   parameter.sizes().vec(),
                   std::vector<std::int64_t>(
                       static_cast<std::size_t>(parameter.dim()))}});
    const nn::ParameterSlice& slice = matches.back().slice;
    if (found->second->shape != slice.whole) {
      throw CheckpointError(
          {.what = "a tensor of another shape than the model's parameter",
           .where = name,
           .values = fmt::format(
               "[{}] and [{}]",
               fmt::join(found->second->shape, ", "),
               fmt::join(slice.whole, ", "))});
    }
  }
  return matches;
}

} // namespace

void load_weights(
    torch::nn::Module& model,
    const model::ModelDescription& description,
    const checkpoints::NamedTensors& tensors) {
  const at::NoGradGuard no_grad;
  for (const Match& match : matches_of(model, description, tensors)) {
    copy_slice(match.parameter, match.stored->load(), match.slice);
  }
}

void load_weights_later(
    const torch::nn::Module& model,
    const model::ModelDescription& description,
    const checkpoints::NamedTensors& tensors,
    nn::LaterValues& later,
    const StartsAnew& starts_anew) {
  for (const Match& match :
       matches_of(model, description, tensors, starts_anew)) {
    later.set(
        match.name,
        [sizes = match.parameter.sizes().vec(),
         stored = *match.stored,
         slice = match.slice](std::int64_t first, const at::Tensor& values) {
          copy_stretch(stored, slice, sizes, first, values);
        });
  }
}

} // namespace cairn::models
