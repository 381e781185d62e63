#pragma once

#include "kernels/internal/dropout_rows.h"

#include <ATen/core/Tensor.h>

namespace cairn::nn {

/// Drops elements of x, whose last dimension is a row's columns. `place` has
/// all but the rows, the columns, the element and the samples. The gradient is
/// dropped alike.
at::Tensor dropped_rows(
    const at::Tensor& x,
    const at::Tensor& samples,
    const kernels::DropoutRows& place);

} // namespace cairn::nn
