#pragma once

#include <ATen/core/Tensor.h>

namespace cairn::nn {

/// Picks rows of `x` by their numbers in `rows`; the number of all rows of `x`
/// stands for zeros. `back`, [n, rows of x], lists for each row of `x` the rows
/// of the result that it went to, at most n. With it both directions only read,
/// in a fixed order.
at::Tensor picked_rows(
    const at::Tensor& x,
    const at::Tensor& rows,
    const at::Tensor& back);

/// The weighted sum, for every token, of the rows of `x` that `rows`, [n,
/// tokens], names. The weight is 0 where there is no row. `comers` has for each
/// row of `x` the place in `rows` that names it; the number of all places
/// stands for none.
at::Tensor mixed_rows(
    const at::Tensor& x,
    const at::Tensor& rows,
    const at::Tensor& weights,
    const at::Tensor& comers);

} // namespace cairn::nn
