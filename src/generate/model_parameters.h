#pragma once

#include <cairn/base/error.h>
#include <cairn/models/transformer.h>

#include <string>

namespace cairn::generate {

/// The parameters of a model by their names.
class ModelParameters {
 public:
  explicit ModelParameters(const models::Transformer& model)
      : parameters_(model.named_parameters()) {}

  at::Tensor get(const std::string& name) const {
    const at::Tensor* found = parameters_.find(name);
    if (found == nullptr) {
      throw InternalError(
          {.what = "a model without a parameter that its description names",
           .values = name});
    }
    return found->detach().contiguous();
  }

 private:
  torch::OrderedDict<std::string, at::Tensor> parameters_;
};

} // namespace cairn::generate
