#pragma once

#include <ATen/core/Tensor.h>

namespace cairn::zero {

/// Copies `values` into the fp32 `weights`, except where the weights round to
/// just those values: there the weights know more.
void take_changed(const at::Tensor& weights, const at::Tensor& values);

} // namespace cairn::zero
