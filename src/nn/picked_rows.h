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

/// The other way: for every token the sum of the rows of `x` that `rows`, [n,
/// tokens], names, each times its weight, which is 0 where there is none.
/// `comers` says what came to each row of `x`, by its place in `rows`; the
/// number of places stands for nothing.
at::Tensor mixed_rows(
    const at::Tensor& x,
    const at::Tensor& rows,
    const at::Tensor& weights,
    const at::Tensor& comers);

} // namespace cairn::nn
