#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <string>
#include <utility>
#include <vector>

namespace cairn::engine {

/// A module's parameters, each once.
struct ModelParameters {
  std::vector<std::string> names;
  std::vector<at::Tensor> tensors;
  /// Other names of the same parameter: {name, the name it is listed under}.
  std::vector<std::pair<std::string, std::string>> ties;
};

ModelParameters parameters_of(const torch::nn::Module& module);

} // namespace cairn::engine
