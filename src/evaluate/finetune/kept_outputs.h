#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace cairn::evaluate {

/// The outputs of a model, on the pipeline's last stage, while they are wanted.
class KeptOutputs {
 public:
  /// Keeps the outputs of the passes that follow.
  void begin() { keeps_ = true; }
  /// The outputs since begin(), [samples, scores] each, in the order of the
  /// micro batches.
  std::vector<at::Tensor> take();
  void offer(const at::Tensor& scores);

 private:
  bool keeps_ = false;
  std::vector<at::Tensor> outputs_;
};

} // namespace cairn::evaluate
