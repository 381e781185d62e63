#pragma once

#include <ATen/core/Tensor.h>

namespace cairn::nn {

/// Rows of `x` by their numbers in `rows`, where the number of its rows stands
/// for zeros. `back`, [n, rows of x], says the same for the way back: which
/// rows of the result each one has gone to, n at most. So both directions only
/// read, in an order that does not change.
at::Tensor picked_rows(
    const at::Tensor& x,
    const at::Tensor& rows,
    const at::Tensor& back);

} // namespace cairn::nn
