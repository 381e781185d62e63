#include "nn/parallel/scattered_product.h"

#include "nn/linear/product.h"

#include <ATen/ops/empty.h>

#include <algorithm>

namespace cairn::nn {

at::Tensor scattered_product(
    const std::vector<ProductFactors>& factors,
    const at::Tensor& bias,
    const distributed::ProcessGroup& group) {
  const at::Tensor& first = factors.front().left;
  const std::int64_t ranks = group.size();
  const std::int64_t share = first.size(0) / ranks;
  const at::Tensor result =
      at::empty({share, factors.front().right.size(1)}, first.options());
  const std::int64_t step = std::max<std::int64_t>(
      1,
      (share + scattered_parts - 1) / scattered_parts);
  std::vector<distributed::Pending> sums;
  for (std::int64_t begin = 0; begin < share; begin += step) {
    const std::int64_t rows = std::min(step, share - begin);
    // The same rows of every rank's share, one rank after the other: the form
    // in which reduce_scatter() takes them.
    const auto part_of = [&](const at::Tensor& left) {
      return left.view({ranks, share, left.size(1)})
          .narrow(1, begin, rows)
          .reshape({ranks * rows, left.size(1)});
    };
    const at::Tensor sum = product(part_of(first), factors[0].right, bias);
    for (std::size_t i = 1; i < factors.size(); ++i) {
      product_into(sum, part_of(factors[i].left), factors[i].right, Into::add);
    }
    sums.push_back(
        group.reduce_scatter_into(result.narrow(0, begin, rows), sum));
  }
  for (distributed::Pending& each : sums) {
    each.wait();
  }
  return result;
}

} // namespace cairn::nn
