#include "nn/product.h"

#include "kernels/cpu/matrix_product.h"
#include "kernels/in_parallel.h"

#include <ATen/Parallel.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/record_function.h>

#include <array>

namespace cairn::nn {
namespace {

namespace cpu = kernels::cpu;

cpu::Matrix matrix(const at::Tensor& x) {
  return {x.const_data_ptr<float>(), x.stride(0), x.stride(1)};
}

/// Of a batch.
cpu::Matrix matrix(const at::Tensor& x, std::int64_t number) {
  return {
      x.const_data_ptr<float>() + number * x.stride(0),
      x.stride(1),
      x.stride(2)};
}

// Too small to share: below, waking the others takes longer.
constexpr std::int64_t worth_sharing = 1 << 18;

void multiply(
    const at::Tensor& left,
    const at::Tensor& right,
    const cpu::ProductResult& result) {
  const cpu::ProductShape shape{left.size(0), right.size(1), left.size(1)};
  const cpu::Matrix a = matrix(left);
  const cpu::Matrix b = matrix(right);
  const std::int64_t parts =
      shape.rows * shape.columns * shape.depth < worth_sharing
      ? 1
      : at::get_num_threads();
  kernels::in_parallel(parts, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      cpu::multiply(shape, cpu::product_part(shape, i, parts), a, b, result);
    }
  });
}

/// `result`: of the first; the others' lie behind it, and so do biases.
void multiply_each(
    const at::Tensor& left,
    const at::Tensor& right,
    const cpu::ProductResult& result) {
  const cpu::ProductShape shape{left.size(1), right.size(2), left.size(2)};
  const std::int64_t count = left.size(0);
  const std::int64_t threads = at::get_num_threads();
  // Matrices are dealt out whole, unless there are too few to do so evenly.
  const std::int64_t parts =
      count % threads == 0 || count >= 8 * threads ? 1 : threads;
  const auto multiply_some = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t n = i / parts;
      cpu::ProductResult one = result;
      one.data += n * shape.rows * shape.columns;
      one.bias += one.bias ? n * shape.columns : 0;
      cpu::multiply(
          shape,
          cpu::product_part(shape, i % parts, parts),
          matrix(left, n),
          matrix(right, n),
          one);
    }
  };
  if (count * shape.rows * shape.columns * shape.depth < worth_sharing) {
    multiply_some(0, count * parts);
  } else {
    kernels::in_parallel(count * parts, multiply_some);
  }
}

/// Whether our kernel takes them. What does not fit together is left to
/// libtorch, which says so.
bool are_ours(const at::Tensor& left, const at::Tensor& right) {
  return has_own_product(left) && has_own_product(right) && left.dim() == 2 &&
      right.dim() == 2 && left.size(1) == right.size(0);
}

bool are_our_batches(const at::Tensor& left, const at::Tensor& right) {
  return has_own_product(left) && has_own_product(right) && left.dim() == 3 &&
      right.dim() == 3 && left.size(0) == right.size(0) &&
      left.size(2) == right.size(1);
}

} // namespace

bool has_own_product(const at::Tensor& x) {
  return cpu::has_matrix_product && x.is_cpu() && x.scalar_type() == at::kFloat;
}

at::Tensor product(
    const at::Tensor& left,
    const at::Tensor& right,
    const at::Tensor& bias) {
  if constexpr (cpu::has_matrix_product) {
    const bool bias_fits = !bias.defined() ||
        (has_own_product(bias) && bias.is_contiguous() &&
         bias.numel() == right.size(-1));
    if (are_ours(left, right) && bias_fits) {
      const std::array<c10::IValue, 3> inputs{left, right, bias};
      RECORD_FUNCTION("cairn::product", inputs);
      const at::Tensor result =
          at::empty({left.size(0), right.size(1)}, left.options());
      multiply(
          left,
          right,
          {.data = result.mutable_data_ptr<float>(),
           .row_step = result.size(1),
           .bias = bias.defined() ? bias.const_data_ptr<float>() : nullptr});
      return result;
    }
  }
  return bias.defined() ? at::addmm(bias, left, right) : at::mm(left, right);
}

void product_into(
    const at::Tensor& into,
    const at::Tensor& left,
    const at::Tensor& right,
    Into how) {
  if constexpr (cpu::has_matrix_product) {
    if (are_ours(left, right) && has_own_product(into) &&
        into.sizes() == at::IntArrayRef({left.size(0), right.size(1)}) &&
        into.stride(1) == 1) {
      const std::array<c10::IValue, 3> inputs{into, left, right};
      RECORD_FUNCTION("cairn::product_into", inputs);
      multiply(
          left,
          right,
          {.data = into.mutable_data_ptr<float>(),
           .row_step = into.stride(0),
           .add = how == Into::add});
      return;
    }
  }
  at::Tensor result = into;
  if (how == Into::add) {
    result.addmm_(left, right);
  } else {
    at::mm_out(result, left, right);
  }
}

at::Tensor batch_product(
    const at::Tensor& left,
    const at::Tensor& right,
    const at::Tensor& bias) {
  if constexpr (cpu::has_matrix_product) {
    const bool bias_fits = !bias.defined() ||
        (has_own_product(bias) && bias.is_contiguous() &&
         bias.sizes() == at::IntArrayRef({right.size(0), right.size(-1)}));
    if (are_our_batches(left, right) && bias_fits) {
      const std::array<c10::IValue, 3> inputs{left, right, bias};
      RECORD_FUNCTION("cairn::batch_product", inputs);
      const at::Tensor result = at::empty(
          {left.size(0), left.size(1), right.size(2)},
          left.options());
      multiply_each(
          left,
          right,
          {.data = result.mutable_data_ptr<float>(),
           .row_step = result.size(2),
           .bias = bias.defined() ? bias.const_data_ptr<float>() : nullptr});
      return result;
    }
  }
  return bias.defined() ? at::baddbmm(bias.unsqueeze(1), left, right)
                        : at::bmm(left, right);
}

void batch_product_into(
    const at::Tensor& into,
    const at::Tensor& left,
    const at::Tensor& right) {
  if constexpr (cpu::has_matrix_product) {
    if (are_our_batches(left, right) && has_own_product(into) &&
        into.is_contiguous() &&
        into.sizes() ==
            at::IntArrayRef({left.size(0), left.size(1), right.size(2)})) {
      const std::array<c10::IValue, 3> inputs{into, left, right};
      RECORD_FUNCTION("cairn::batch_product_into", inputs);
      multiply_each(
          left,
          right,
          {.data = into.mutable_data_ptr<float>(), .row_step = into.size(2)});
      return;
    }
  }
  at::Tensor result = into;
  at::bmm_out(result, left, right);
}

} // namespace cairn::nn
