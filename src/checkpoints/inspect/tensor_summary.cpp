#include "checkpoints/internal/tensor_summary.h"

#include "checkpoints/inspect/double_portions.h"

#include <ATen/TensorOperators.h>

#include <cmath>

namespace cairn::checkpoints {

TensorSummary summarize(const at::Tensor& tensor) {
  const at::Tensor flat = flat_reals(tensor);
  TensorSummary summary;
  double squares = 0;
  bool any = false;
  for_each_portion(flat.numel(), [&](std::int64_t begin, std::int64_t count) {
    at::Tensor values = flat.narrow(0, begin, count).to(at::kDouble);
    const at::Tensor finite = values.isfinite();
    if (!finite.all().item<bool>()) {
      const auto nans = values.isnan().sum().item<std::int64_t>();
      summary.nans += nans;
      summary.infinities += count - finite.sum().item<std::int64_t>() - nans;
      values = values.masked_select(finite);
    }
    if (values.numel() == 0) {
      return;
    }
    const double least = values.min().item<double>();
    const double most = values.max().item<double>();
    summary.least = any ? std::min(summary.least, least) : least;
    summary.most = any ? std::max(summary.most, most) : most;
    any = true;
    squares += values.dot(values).item<double>();
  });
  summary.norm = std::sqrt(squares);
  return summary;
}

} // namespace cairn::checkpoints
