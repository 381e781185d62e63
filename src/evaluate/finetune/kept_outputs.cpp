#include "evaluate/finetune/kept_outputs.h"

#include <utility>

namespace cairn::evaluate {

std::vector<at::Tensor> KeptOutputs::take() {
  keeps_ = false;
  return std::exchange(outputs_, {});
}

void KeptOutputs::offer(const at::Tensor& scores) {
  if (keeps_) {
    outputs_.push_back(scores.detach());
  }
}

} // namespace cairn::evaluate
