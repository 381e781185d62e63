#include "zero/reduce/packed_by_operators.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <vector>

namespace cairn::zero {

namespace {

constexpr int offset_of_four_bits = 8;

struct Blocks {
  at::Tensor scales;
  at::Tensor integers; ///< as bytes
};

/// Packs `rows`, which are one block each, in fp32.
Blocks pack_rows(const at::Tensor& rows, const kernels::PackedBlocks& plan) {
  const at::Tensor largest = rows.abs().amax(1, /*keepdim=*/true);
  const at::Tensor finite = at::isfinite(largest);
  const at::Tensor worth =
      finite.logical_and(largest.ge(kernels::PackedBlocks::smallest));
  const at::Tensor none = at::zeros_like(largest);
  // Divide tensors by tensors: libtorch may turn a division by a number into a
  // product with its inverse.
  const at::Tensor most = at::full_like(largest, plan.most());
  const at::Tensor inverse = at::where(worth, most.div(largest), none);
  const at::Tensor whole =
      at::where(worth, at::round(rows * inverse), none).to(at::kInt);
  Blocks result{
      .scales =
          at::where(worth, largest.div(most), at::where(finite, none, largest))
              .view({-1})};
  if (plan.bits == 4) {
    const auto halves = (whole + offset_of_four_bits).chunk(2, 1);
    result.integers = (halves[0] + halves[1] * 16).to(at::kByte).view({-1});
  } else {
    result.integers = whole.to(at::kChar).view(at::kByte).view({-1});
  }
  return result;
}

/// Returns fp32 [blocks, size].
at::Tensor unpack_rows(
    const at::Tensor& scales,
    const at::Tensor& integers,
    const kernels::PackedBlocks& plan) {
  const std::int64_t blocks = scales.numel();
  const at::Tensor rows = integers.view({blocks, -1});
  if (plan.bits == 8) {
    return rows.view(at::kChar).to(at::kFloat) * scales.view({blocks, 1});
  }
  const at::Tensor both = rows.to(at::kInt);
  const at::Tensor whole =
      at::cat({both.bitwise_and(15), at::div(both, 16, "trunc")}, 1);
  return (whole - offset_of_four_bits).to(at::kFloat) *
      scales.view({blocks, 1});
}

/// Number of elements in full blocks.
std::int64_t full_elements(const kernels::PackedBlocks& plan) {
  return plan.count / plan.block * plan.block;
}

} // namespace

at::Tensor packed_by_operators(
    const at::Tensor& values,
    const kernels::PackedBlocks& plan) {
  const at::Tensor wide = values.to(at::kFloat);
  const std::int64_t full = full_elements(plan);
  std::vector<Blocks> parts;
  if (full > 0) {
    parts.push_back(
        pack_rows(wide.narrow(0, 0, full).view({-1, plan.block}), plan));
  }
  if (full < plan.count) {
    parts.push_back(
        pack_rows(wide.narrow(0, full, plan.count - full).view({1, -1}), plan));
  }
  std::vector<at::Tensor> bytes;
  for (const Blocks& part : parts) {
    bytes.push_back(part.scales.view(at::kByte));
  }
  for (const Blocks& part : parts) {
    bytes.push_back(part.integers);
  }
  return at::cat(bytes);
}

at::Tensor unpacked_by_operators(
    const at::Tensor& packed,
    const kernels::PackedBlocks& plan) {
  const at::Tensor scales =
      packed.narrow(0, 0, plan.scale_bytes()).view(at::kFloat);
  const std::int64_t full = full_elements(plan);
  const std::int64_t blocks = full / plan.block;
  const std::int64_t full_bytes = full * plan.bits / 8;
  const std::int64_t all_bytes = plan.count * plan.bits / 8;
  std::vector<at::Tensor> parts;
  if (full > 0) {
    parts.push_back(unpack_rows(
                        scales.narrow(0, 0, blocks),
                        packed.narrow(0, plan.scale_bytes(), full_bytes),
                        plan)
                        .view({-1}));
  }
  if (full < plan.count) {
    parts.push_back(unpack_rows(
                        scales.narrow(0, blocks, 1),
                        packed.narrow(
                            0,
                            plan.scale_bytes() + full_bytes,
                            all_bytes - full_bytes),
                        plan)
                        .view({-1}));
  }
  return at::cat(parts);
}

} // namespace cairn::zero
