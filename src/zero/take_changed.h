#pragma once

#include <ATen/core/Tensor.h>

namespace cairn::zero {

/// Brings `values` into the fp32 `weights`, except where they are what those
/// are anyway after rounding: there the weights know more.
void take_changed(const at::Tensor& weights, const at::Tensor& values);

} // namespace cairn::zero
