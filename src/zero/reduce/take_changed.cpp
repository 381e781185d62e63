#include "zero/reduce/take_changed.h"

#include <ATen/Functions.h>

namespace cairn::zero {

void take_changed(const at::Tensor& weights, const at::Tensor& values) {
  const at::Tensor given = values.to(weights.device());
  const at::Tensor same = weights.to(given.scalar_type()).eq(given);
  weights.copy_(at::where(same, weights, given.to(weights.scalar_type())));
}

} // namespace cairn::zero
