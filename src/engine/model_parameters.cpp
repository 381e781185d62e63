#include "engine/model_parameters.h"

#include <unordered_map>

namespace cairn::engine {

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

} // namespace cairn::engine
