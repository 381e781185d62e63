#include "engine/build/model_parameters.h"

#include <cairn/base/error.h>

#include <algorithm>
#include <unordered_map>

namespace cairn::inline engine {

ModelParameters parameters_of(const torch::nn::Module& module) {
  ModelParameters result;
  std::unordered_map<const c10::TensorImpl*, std::string> seen;
  for (const auto& item : module.named_parameters()) {
    const auto [first, fresh] =
        seen.emplace(item.value().unsafeGetTensorImpl(), item.key());
    if (fresh) {
      result.names.push_back(item.key());
      result.tensors.push_back(item.value());
    } else {
      result.ties.emplace_back(item.key(), first->second);
    }
  }
  return result;
}

int ModelParameters::number_of(const std::string& name) const {
  for (const auto& [other_name, listed_name] : ties) {
    if (other_name == name) {
      return number_of(listed_name);
    }
  }
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) {
    throw UsageError({.what = "no such parameter", .where = name});
  }
  return static_cast<int>(found - names.begin());
}

int ModelParameters::number_of(const at::Tensor& parameter) const {
  const auto found = std::ranges::find_if(tensors, [&](const at::Tensor& ours) {
    return ours.is_same(parameter);
  });
  if (found == tensors.end()) {
    throw UsageError(
        {.what = "a tensor that is not a parameter of the model",
         .remedy = "take it from engine.module().parameters()"});
  }
  return static_cast<int>(found - tensors.begin());
}

} // namespace cairn::engine
