#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <vector>

namespace cairn::pipeline {

struct MicroBatch {
  std::vector<at::Tensor> inputs; ///< for the first layer
  std::vector<at::Tensor> labels; ///< for the loss
};

/// Gives the next micro batch; nullopt: there are no more. Only the first and
/// the last stage ask, equally often: the first uses the inputs, the last the
/// labels.
using NextMicroBatch = std::function<std::optional<MicroBatch>()>;

} // namespace cairn::pipeline
