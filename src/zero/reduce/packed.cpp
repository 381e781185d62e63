#include "zero/reduce/packed.h"

#include "kernels/internal/cpu/pack_blocks.h"
#include "kernels/internal/in_parallel.h"
#include "zero/internal/bucket_shard.h"
#include "zero/reduce/packed_by_operators.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <cstddef>

namespace cairn::zero {

namespace {

/// Calls body(begin, end) for stretches of blocks, on every thread.
template <typename Body>
void over_blocks(const kernels::PackedBlocks& plan, const Body& body) {
  constexpr std::int64_t at_a_time = 128;
  const std::int64_t blocks = plan.blocks();
  kernels::in_parallel(
      (blocks + at_a_time - 1) / at_a_time,
      [&](std::int64_t begin, std::int64_t end) {
        body(begin * at_a_time, std::min(end * at_a_time, blocks));
      });
}

std::byte* bytes_in(const at::Tensor& packed) {
  return static_cast<std::byte*>(packed.data_ptr());
}

} // namespace

void pack(const at::Tensor& values, Wire wire, const at::Tensor& packed) {
  const kernels::PackedBlocks plan = blocks_of(wire, values.numel());
  if (!values.is_cpu()) {
    packed.copy_(packed_by_operators(values, plan));
    return;
  }
  const kernels::Element element = element_of(values.scalar_type());
  over_blocks(plan, [&](std::int64_t begin, std::int64_t end) {
    kernels::cpu::pack_blocks(
        plan,
        values.const_data_ptr(),
        element,
        bytes_in(packed),
        begin,
        end);
  });
}

at::Tensor packed_of(const at::Tensor& values, Wire wire) {
  at::Tensor packed = at::empty(
      {blocks_of(wire, values.numel()).bytes()},
      values.options().dtype(at::kByte));
  pack(values, wire, packed);
  return packed;
}

void unpack(const at::Tensor& packed, Wire wire, const at::Tensor& values) {
  const kernels::PackedBlocks plan = blocks_of(wire, values.numel());
  if (!values.is_cpu()) {
    values.copy_(unpacked_by_operators(packed, plan));
    return;
  }
  const kernels::Element element = element_of(values.scalar_type());
  over_blocks(plan, [&](std::int64_t begin, std::int64_t end) {
    kernels::cpu::unpack_blocks(
        plan,
        bytes_in(packed),
        values.data_ptr(),
        element,
        begin,
        end);
  });
}

void add_packed(const at::Tensor& packed, Wire wire, const at::Tensor& sums) {
  const kernels::PackedBlocks plan = blocks_of(wire, sums.numel());
  if (!sums.is_cpu()) {
    sums.add_(unpacked_by_operators(packed, plan));
    return;
  }
  over_blocks(plan, [&](std::int64_t begin, std::int64_t end) {
    kernels::cpu::add_blocks(
        plan,
        bytes_in(packed),
        sums.data_ptr<float>(),
        begin,
        end);
  });
}

} // namespace cairn::zero
