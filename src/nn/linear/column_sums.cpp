#include "nn/linear/column_sums.h"

#include "kernels/internal/cuda/column_sums.h"
#include "kernels/internal/in_parallel.h"
#include "nn/linear/gpu_kernel.h"
#include "nn/linear/summed_parts.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>

#include <algorithm>
#include <array>
#include <type_traits>

namespace cairn::nn {
namespace {

constexpr std::int64_t block = 32; ///< columns whose sums stay in registers

/// Sums rows in groups and adds up the groups' sums, so that errors grow
/// slowly. `columns` has a type of its own where the number is known to the
/// compiler.
template <typename Columns>
void sum_block(
    const float* from,
    std::int64_t step,
    std::int64_t rows,
    Columns columns,
    float* to) {
  constexpr std::int64_t group = 64;
  std::fill_n(to, std::int64_t{columns}, 0.0F);
  for (std::int64_t first = 0; first < rows; first += group) {
    std::array<float, block> sums{};
    const std::int64_t last = std::min(rows, first + group);
    for (std::int64_t i = first; i < last; ++i) {
      const float* const row = from + i * step;
      for (std::int64_t j = 0; j < columns; ++j) {
        sums[j] += row[j];
      }
    }
    for (std::int64_t j = 0; j < columns; ++j) {
      to[j] += sums[j];
    }
  }
}

/// Sums over groups of rows on a GPU, [parts, columns].
at::Tensor parts_on_gpu(const at::Tensor& matrix) {
  const kernels::cuda::MatrixShape shape{
      matrix.size(0),
      matrix.size(1),
      *kernels::element_of(matrix.scalar_type())};
  const at::Tensor parts = at::empty(
      {kernels::cuda::column_parts(shape), shape.columns},
      matrix.options().dtype(at::kFloat));
  run_kernel(matrix, "column sums", [&](void* stream) {
    return kernels::cuda::column_sums(
        shape,
        matrix.const_data_ptr(),
        parts.mutable_data_ptr<float>(),
        stream);
  });
  return parts;
}

bool has_parts(const at::Tensor& matrix) {
  return matrix.dim() == 2 && matrix.numel() > 0 && has_row_kernels(matrix);
}

} // namespace

at::Tensor bias_gradient(const at::Tensor& bias, const at::Tensor& gradient) {
  return has_parts(gradient) ? summed_parts(parts_on_gpu(gradient), bias)
                             : column_sums(gradient);
}

at::Tensor column_sums(const at::Tensor& matrix) {
  if (has_parts(matrix)) {
    return parts_on_gpu(matrix).sum(0);
  }
  if (!matrix.is_cpu() || matrix.scalar_type() != at::kFloat ||
      matrix.stride(1) != 1) {
    return matrix.sum(0);
  }
  const std::int64_t columns = matrix.size(1);
  at::Tensor sums = at::empty({columns}, matrix.options());
  const float* const from = matrix.const_data_ptr<float>();
  float* const to = sums.mutable_data_ptr<float>();
  kernels::in_parallel(
      (columns + block - 1) / block,
      [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t j = first * block;
             j < std::min(columns, last * block);
             j += block) {
          const auto sum = [&](auto width) {
            sum_block(
                from + j,
                matrix.stride(0),
                matrix.size(0),
                width,
                to + j);
          };
          if (columns - j >= block) {
            sum(std::integral_constant<std::int64_t, block>());
          } else {
            sum(columns - j);
          }
        }
      });
  return sums;
}

} // namespace cairn::nn
