#include "nn/linear/product.h"

#include "kernels/internal/cpu/matrix_product.h"
#include "kernels/internal/in_parallel.h"
#include "nn/linear/gpu_product.h"
#include "nn/linear/wide_compute.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/DimVector.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/record_function.h>

#include <array>
#include <utility>

namespace cairn::nn {
namespace {

namespace cpu = kernels::cpu;

/// The matrix `x`, or matrix `number` of a batch.
cpu::Matrix matrix(const at::Tensor& x, std::int64_t number) {
  const std::int64_t first = x.dim() == 3 ? number * x.stride(0) : 0;
  return {x.const_data_ptr<float>() + first, x.stride(-2), x.stride(-1)};
}

/// Multiplies all matrices. `result` is that of the first; the results and
/// biases of the others follow it.
void multiply(
    const at::Tensor& left,
    const at::Tensor& right,
    const cpu::ProductResult& result) {
  const cpu::ProductShape shape{left.size(-2), right.size(-1), left.size(-1)};
  const std::int64_t count = left.dim() == 3 ? left.size(0) : 1;
  const std::int64_t threads = at::get_num_threads();
  // Smaller products are not shared: waking the other threads takes longer.
  constexpr std::int64_t worth_sharing = 1 << 18;
  const bool shared =
      count * shape.rows * shape.columns * shape.depth >= worth_sharing;
  // Matrices are dealt out whole, unless there are too few to do so evenly.
  const bool whole = !shared || count % threads == 0 || count >= 8 * threads;
  const std::int64_t parts = whole ? 1 : threads;
  const auto multiply_some = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t n = i / parts;
      cpu::ProductResult one = result;
      one.data += n * shape.rows * shape.columns;
      one.bias += one.bias != nullptr ? n * shape.columns : 0;
      cpu::multiply(
          shape,
          cpu::product_part(shape, i % parts, parts),
          matrix(left, n),
          matrix(right, n),
          one);
    }
  };
  if (shared) {
    kernels::in_parallel(count * parts, multiply_some);
  } else {
    multiply_some(0, count);
  }
}

bool multiplies(const at::Tensor& x) {
  return cpu::outruns_libtorch && has_cpu_kernels(x);
}

/// True when our kernel takes both. Matrices that do not fit together are left
/// to libtorch, which says so.
bool are_ours(const at::Tensor& left, const at::Tensor& right) {
  const bool batches =
      left.dim() == 3 && right.dim() == 3 && left.size(0) == right.size(0);
  return multiplies(left) && multiplies(right) &&
      (batches || (left.dim() == 2 && right.dim() == 2)) &&
      left.size(-1) == right.size(-2);
}

at::DimVector result_shape(const at::Tensor& left, const at::Tensor& right) {
  at::DimVector shape(left.sizes());
  shape.back() = right.size(-1);
  return shape;
}

/// True when there is one value for each column of each matrix.
bool is_bias(const at::Tensor& bias, const at::Tensor& right) {
  const std::int64_t count = right.dim() == 3 ? right.size(0) : 1;
  return multiplies(bias) && bias.is_contiguous() &&
      bias.numel() == count * right.size(-1);
}

/// Multiplies by our own kernel, if it takes these matrices.
bool multiply_into(
    const at::Tensor& into,
    const at::Tensor& left,
    const at::Tensor& right,
    Into how,
    const at::Tensor& bias = {}) {
  if constexpr (cpu::outruns_libtorch) {
    if (are_ours(left, right) && multiplies(into) &&
        (!bias.defined() || is_bias(bias, right)) &&
        into.sizes() == at::IntArrayRef(result_shape(left, right)) &&
        into.stride(-1) == 1 && (into.dim() == 2 || into.is_contiguous())) {
      const std::array<c10::IValue, 4> inputs{into, left, right, bias};
      RECORD_FUNCTION("cairn::product_into", inputs);
      multiply(
          left,
          right,
          {.data = into.mutable_data_ptr<float>(),
           .row_step = into.stride(-2),
           .add = how == Into::add,
           .bias = bias.defined() ? bias.const_data_ptr<float>() : nullptr});
      return true;
    }
  }
  return false;
}

/// Multiplies by libtorch's product. A GPU can sum products of 16-bit matrices
/// into float.
void libtorch_into(
    at::Tensor into,
    const at::Tensor& left,
    const at::Tensor& right,
    Into how) {
  const double kept = how == Into::add ? 1 : 0; // factor of the old values
  const at::ScalarType type = into.scalar_type();
  const bool batches = left.dim() == 3;
  if (type != left.scalar_type()) {
    batches ? at::baddbmm_out(into, into, left, right, type, kept, 1)
            : at::addmm_out(into, into, left, right, type, kept, 1);
  } else {
    batches ? into.baddbmm_(left, right, kept) : into.addmm_(left, right, kept);
  }
}

} // namespace

bool has_cpu_kernels(const at::Tensor& x) {
  return cpu::has_matrix_product() && x.is_cpu() &&
      x.scalar_type() == at::kFloat;
}

at::Tensor product(
    const at::Tensor& left,
    const at::Tensor& right,
    const at::Tensor& bias) {
  if constexpr (cpu::outruns_libtorch) {
    if (are_ours(left, right) && (!bias.defined() || is_bias(bias, right))) {
      const std::array<c10::IValue, 3> inputs{left, right, bias};
      RECORD_FUNCTION("cairn::product", inputs);
      const at::Tensor result =
          at::empty(result_shape(left, right), left.options());
      multiply(
          left,
          right,
          {.data = result.mutable_data_ptr<float>(),
           .row_step = result.size(-1),
           .bias = bias.defined() ? bias.const_data_ptr<float>() : nullptr});
      return result;
    }
  }
  if (auto result = gpu_product(left, right, bias)) {
    return *std::move(result);
  }
  if (computes_wide(left)) {
    return product(widened(left), widened(right), widened(bias))
        .to(left.scalar_type());
  }
  if (left.dim() == 3) {
    return bias.defined() ? at::baddbmm(bias.unsqueeze(1), left, right)
                          : at::bmm(left, right);
  }
  return bias.defined() ? at::addmm(bias, left, right) : at::mm(left, right);
}

at::Tensor product_added_to(
    const at::Tensor& addend,
    const at::Tensor& left,
    const at::Tensor& right,
    const at::Tensor& bias) {
  if (!addend.defined()) {
    return product(left, right, bias);
  }
  if (auto sum = gpu_product(left, right, bias, addend)) {
    return *std::move(sum);
  }
  return addend + product(left, right, bias);
}

void product_into(
    const at::Tensor& into,
    const at::Tensor& left,
    const at::Tensor& right,
    Into how) {
  if (multiply_into(into, left, right, how) ||
      gpu_product_into(into, left, right, how)) {
    return;
  }
  const bool computes_in_float = computes_wide(left);
  if (computes_in_float && into.scalar_type() == at::kFloat) {
    product_into(into, widened(left), widened(right), how);
    return;
  }
  const bool same_type = into.scalar_type() == left.scalar_type();
  const bool widens = into.scalar_type() == at::kFloat && left.is_cuda();
  if (!computes_in_float && (same_type || widens)) {
    libtorch_into(into, left, right, how);
    return;
  }
  at::Tensor result = into;
  const at::Tensor each = product(left, right);
  how == Into::add ? result.add_(each) : result.copy_(each);
}

void product_with_bias_into(
    const at::Tensor& into,
    const at::Tensor& left,
    const at::Tensor& right,
    const at::Tensor& bias) {
  if (!bias.defined()) {
    product_into(into, left, right, Into::overwrite);
    return;
  }
  if (multiply_into(into, left, right, Into::overwrite, bias) ||
      gpu_product_into(into, left, right, Into::overwrite, bias)) {
    return;
  }
  at::Tensor result = into;
  if (computes_wide(left)) {
    result.copy_(product(left, right, bias));
  } else {
    at::addmm_out(result, bias, left, right);
  }
}

} // namespace cairn::nn
