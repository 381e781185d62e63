#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/distributed/process_group.h>

#include <vector>

namespace cairn::nn {

/// The factors of a product, [rows, depth] and [depth, columns].
struct ProductFactors {
  at::Tensor left;
  at::Tensor right;
};

/// Parts in which a rank's rows are multiplied and summed. The sum of the last
/// part is the one that no product hides: a quarter of all.
inline constexpr std::int64_t scattered_parts = 4;

/// Computes the sum of the products, and of the bias if it is defined, adds it
/// up over all ranks, and returns this rank's share of the rows. All lefts have
/// the same rows, which the ranks divide. The rows are multiplied in parts; the
/// sum of one part over the ranks runs beside the products of the next.
/// Without autograd.
at::Tensor scattered_product(
    const std::vector<ProductFactors>& factors,
    const at::Tensor& bias,
    const distributed::ProcessGroup& group);

} // namespace cairn::nn
