#include "pretrain/run/loss_meter.h"

#include <ATen/ops/stack.h>

namespace cairn::pretrain {

void LossMeter::add(const LossParts& losses) {
  std::vector<at::Tensor> values;
  for (const auto& [name, loss] : losses) {
    values.push_back(loss.detach().to(at::kFloat));
  }
  const at::Tensor together = at::stack(values);
  if (count_++ == 0) {
    names_.clear();
    for (const auto& [name, loss] : losses) {
      names_.push_back(name);
    }
    sums_ = together;
  } else {
    sums_.add_(together);
  }
}

std::vector<monitor::NamedValue> LossMeter::mean(
    const distributed::ProcessGroup& group) {
  std::vector<monitor::NamedValue> result;
  if (count_ == 0) {
    return result;
  }
  group.all_reduce(sums_).wait();
  const at::Tensor values = sums_.cpu();
  const double parts = static_cast<double>(count_) * group.size();
  for (std::size_t i = 0; i < names_.size(); ++i) {
    result.push_back(
        {names_[i],
         values.const_data_ptr<float>()[static_cast<std::ptrdiff_t>(i)] /
             parts});
  }
  count_ = 0;
  return result;
}

} // namespace cairn::pretrain
