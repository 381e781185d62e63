#include "checkpoints/tensors/parameter_tensors.h"

#include <cairn/base/error.h>
#include <cairn/model/parameters.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <utility>

namespace cairn::checkpoints {

NamedTensors parameter_tensors(
    const model::ModelDescription& description,
    const NamedTensors& tensors) {
  std::map<std::string, const LazyTensor*> given;
  for (const auto& [name, tensor] : tensors) {
    given.emplace(name, &tensor);
  }
  NamedTensors result;
  for (model::ModelParameter& parameter :
       model::model_parameters(description)) {
    const auto node = given.extract(parameter.name);
    if (node.empty()) {
      throw CheckpointError(
          {.what = "a tensor of the model is missing",
           .values = parameter.name});
    }
    if (node.mapped()->shape != parameter.shape) {
      throw CheckpointError(
          {.what = fmt::format(
               "\"{}\" has another shape than the model",
               parameter.name),
           .values = fmt::format(
               "[{}], not [{}]",
               fmt::join(node.mapped()->shape, ", "),
               fmt::join(parameter.shape, ", "))});
    }
    if (!at::isFloatingType(node.mapped()->type)) {
      throw CheckpointError(
          {.what = fmt::format(
               "\"{}\" holds no floating point numbers",
               parameter.name),
           .values = c10::toString(node.mapped()->type)});
    }
    result.emplace_back(std::move(parameter.name), *node.mapped());
  }
  for (const auto& [name, original] : model::model_ties(description)) {
    given.erase(name);
  }
  if (!given.empty()) {
    throw CheckpointError(
        {.what = "a tensor that the model does not have",
         .values = given.begin()->first});
  }
  return result;
}

} // namespace cairn::checkpoints
