#include "engine/step/mean_loss.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/stack.h>

namespace cairn::inline engine {

void MeanLoss::add(const BatchLoss& loss) {
  std::vector<at::Tensor> values{loss.loss.detach().to(at::kFloat)};
  names_.clear();
  for (const auto& [name, part] : loss.parts) {
    values.push_back(part.detach().to(at::kFloat));
    names_.push_back(name);
  }
  const at::Tensor together = at::stack(values);
  sums_ = count_++ == 0 ? together : sums_.add_(together);
}

at::Tensor MeanLoss::loss() const {
  return sums_.select(0, 0) / count_;
}

LossParts MeanLoss::parts() const {
  LossParts result;
  for (const std::string& name : names_) {
    const auto place = static_cast<std::int64_t>(result.size()) + 1;
    result.emplace_back(name, sums_.select(0, place) / count_);
  }
  return result;
}

} // namespace cairn::engine
