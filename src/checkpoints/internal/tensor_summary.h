#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace cairn::checkpoints {

/// Statistics of a tensor's values. `norm`, `least` and `most` are those of its
/// finite elements, 0 where there are none.
struct TensorSummary {
  double norm = 0;
  double least = 0;
  double most = 0;
  std::int64_t nans = 0;
  std::int64_t infinities = 0;

  bool finite() const { return nans == 0 && infinities == 0; }
};

/// Summary of a tensor of any type on the CPU, computed in double.
TensorSummary summarize(const at::Tensor& tensor);

} // namespace cairn::checkpoints
