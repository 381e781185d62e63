#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <string>
#include <utility>
#include <vector>

namespace cairn::inline engine {

/// A module's parameters, each once.
struct ModelParameters {
  std::vector<std::string> names;
  std::vector<at::Tensor> tensors;
  /// Other names of the same parameter: {name, the name it is listed under}.
  std::vector<std::pair<std::string, std::string>> ties;

  /// A parameter's place in the lists, by any of its names or by itself; throws
  /// UsageError if it has none.
  int number_of(const std::string& name) const;
  int number_of(const at::Tensor& parameter) const;
};

ModelParameters parameters_of(const torch::nn::Module& module);

} // namespace cairn::engine
