#include "nn/attention/joined_gradient.h"

#include "kernels/internal/cuda/join_fp8.h"
#include "nn/linear/gpu_kernel.h"

#include <ATen/ops/empty.h>
#include <cairn/nn/later_values.h>

#include <utility>

namespace cairn::nn {
namespace {

namespace cuda = kernels::cuda;

/// A tensor [batch, heads, tokens, size] as our kernels read it.
cuda::Heads heads_of(const at::Tensor& x) {
  return {x.const_data_ptr(), x.stride(0), x.stride(2), x.stride(1)};
}

/// cuDNN gives gradients densely. Others are copied first.
at::Tensor dense(const at::Tensor& x) {
  const cuda::Heads heads = heads_of(x);
  return x.stride(3) == 1 && heads.batch_step % 8 == 0 &&
          heads.token_step % 8 == 0 && heads.head_step % 8 == 0
      ? x
      : x.contiguous();
}

cuda::HeadsOfAll heads_of(const AttentionInput& input) {
  return {heads_of(input.query), heads_of(input.key), heads_of(input.value)};
}

at::Tensor memory_for(
    TokenSums sums,
    std::int64_t parts,
    std::int64_t columns,
    const at::Tensor& like) {
  return sums == TokenSums::none
      ? at::Tensor()
      : at::empty({parts, columns}, like.options().dtype(at::kFloat));
}

JoinedGradient join_in_16_bits(
    at::IntArrayRef sizes,
    const AttentionInput& gradients,
    const RotaryAngles& angles,
    TokenSums sums) {
  const at::Tensor& query = gradients.query;
  JoinedGradient result{at::empty(sizes, query.options()), {}};
  const cuda::JoinedShape shape = joined_shape(result.whole);
  result.parts = memory_for(
      sums,
      cuda::joined_parts(shape),
      result.whole.stride(1),
      query);
  run_kernel(query, "joined heads", [&](void* stream) {
    return cuda::join_heads(
        shape,
        heads_of(gradients),
        joined_angles(angles),
        result.whole.mutable_data_ptr(),
        floats_or_null(result.parts),
        stream);
  });
  return result;
}

JoinedGradient join_in_fp8(
    at::IntArrayRef sizes,
    const AttentionInput& gradients,
    const RotaryAngles& angles,
    RoundedGradient& way,
    TokenSums sums) {
  const at::Tensor& query = gradients.query;
  JoinedGradient result{without_memory(sizes, query.options()), {}};
  const cuda::JoinedShape shape = joined_shape(result.whole);
  const std::int64_t columns = shape.groups * (shape.queries + 2) * shape.size;
  const std::int64_t rows = shape.batch * shape.tokens;
  const Fp8Scale& scale = way.scale();
  Fp8Matrix made{
      .rows = at::empty({rows, columns}, query.options().dtype(way.type())),
      .columns = at::empty({columns, rows}, query.options().dtype(way.type())),
      .unit = scale.unit};
  result.parts = memory_for(
      sums,
      cuda::fp8_sum_parts({rows, columns, shape.element}),
      columns,
      query);
  run_kernel(query, "joined heads in fp8", [&](void* stream) {
    return cuda::join_heads_to_fp8(
        shape,
        heads_of(gradients),
        joined_angles(angles),
        {.format =
             way.type() == at::kFloat8_e5m2 ? cuda::Fp8::e5m2 : cuda::Fp8::e4m3,
         .rows = made.rows.mutable_data_ptr(),
         .columns = made.columns.mutable_data_ptr(),
         .unit = made.unit.mutable_data_ptr<float>(),
         .column_sums = floats_or_null(result.parts),
         .largest = scale.largest.defined()
             ? scale.largest.mutable_data_ptr<float>()
             : nullptr},
        stream);
  });
  way.leave(std::move(made));
  return result;
}

} // namespace

cuda::JoinedShape joined_shape(const at::Tensor& joined) {
  return {
      .batch = joined.size(0),
      .tokens = joined.size(1),
      .groups = joined.size(2),
      .queries = joined.size(3) - 2,
      .size = joined.size(4),
      .element = *kernels::element_of(joined.scalar_type())};
}

cuda::Angles joined_angles(const RotaryAngles& angles) {
  if (!angles.cosine.defined()) {
    return {};
  }
  return {
      angles.cosine.const_data_ptr(),
      angles.sine.const_data_ptr(),
      angles.cosine.size(0) * angles.cosine.size(1)};
}

JoinedGradient join_gradients(
    at::IntArrayRef sizes,
    const AttentionInput& gradients,
    const RotaryAngles& angles,
    RoundedGradient* way,
    TokenSums sums) {
  const AttentionInput readable{
      dense(gradients.query),
      dense(gradients.key),
      dense(gradients.value)};
  return way != nullptr ? join_in_fp8(sizes, readable, angles, *way, sums)
                        : join_in_16_bits(sizes, readable, angles, sums);
}

} // namespace cairn::nn
