#include "kernels/internal/cuda/column_sums.h"

#include "kernels/cuda/for_each.cuh"
#include "kernels/cuda/gelu.cuh"

#include <algorithm>
#include <type_traits>

namespace cairn::kernels::cuda {
namespace {

/// A block has as many groups of columns as a warp has threads, and this many
/// rows at a time.
constexpr int across = 32;
constexpr int rows_at_once = 8;
constexpr int reads_at_once = 4; ///< of a thread
/// Parts that a block adds up at a time.
constexpr int parts_at_once = 32;

/// Sums what `source` gives for each element, over every
/// `gridDim.y * rows_at_once`-th row.
template <int width, class Source>
__global__ void __launch_bounds__(across* rows_at_once) sums_kernel(
    std::int64_t rows,
    std::int64_t columns,
    Source source,
    float* parts) {
  __shared__ float sums[rows_at_once][across * width];
  const std::int64_t column =
      (static_cast<std::int64_t>(blockIdx.x) * across + threadIdx.x) * width;
  float own[width] = {};
  const std::int64_t step = static_cast<std::int64_t>(gridDim.y) * rows_at_once;
  std::int64_t row =
      static_cast<std::int64_t>(blockIdx.y) * rows_at_once + threadIdx.y;
  const auto add_rows = [&](auto count) {
    Lane lanes[count()][width];
#pragma unroll
    for (int i = 0; i < count(); ++i) {
      source((row + i * step) * columns + column, lanes[i]);
    }
#pragma unroll
    for (int i = 0; i < count(); ++i) {
#pragma unroll
      for (int k = 0; k < width; ++k) {
        own[k] += lanes[i][k].value;
      }
    }
    row += count() * step;
  };
  if (column < columns) {
    while (row + (reads_at_once - 1) * step < rows) {
      add_rows(std::integral_constant<int, reads_at_once>());
    }
    while (row < rows) {
      add_rows(std::integral_constant<int, 1>());
    }
  }
#pragma unroll
  for (int k = 0; k < width; ++k) {
    sums[threadIdx.y][threadIdx.x * width + k] = own[k];
  }
  __syncthreads();
  const int first = static_cast<int>(threadIdx.y * across + threadIdx.x);
  for (int j = first; j < across * width; j += across * rows_at_once) {
    const std::int64_t place =
        static_cast<std::int64_t>(blockIdx.x) * across * width + j;
    if (place < columns) {
      float sum = 0;
#pragma unroll
      for (int i = 0; i < rows_at_once; ++i) {
        sum += sums[i][j];
      }
      parts[blockIdx.y * columns + place] = sum;
    }
  }
}

template <Element element>
struct ReadElements {
  const void* matrix;

  template <int width>
  __device__ void operator()(std::int64_t i, Lane (&lanes)[width]) const {
    load(matrix, element, i, lanes);
  }
};

template <Element element>
struct GeluGradients {
  Gelu kind;
  const void* gradient;
  const void* x;
  void* of_x;

  /// Gives the gradients as they are stored, so that the sums are theirs.
  template <int width>
  __device__ void operator()(std::int64_t i, Lane (&lanes)[width]) const {
    Lane inputs[width];
    load(gradient, element, i, lanes);
    load(x, element, i, inputs);
#pragma unroll
    for (int k = 0; k < width; ++k) {
      lanes[k].value *= gelu_slope(inputs[k].value, kind);
    }
    round_to<element>(lanes);
    store(lanes, of_x, element, i);
  }
};

template <class Source>
const char* sum_columns(
    const MatrixShape& shape,
    bool eights,
    const Source& source,
    float* parts,
    void* stream) {
  const int width = eights ? 8 : 1;
  const std::int64_t columns = static_cast<std::int64_t>(across) * width;
  return launch(
      eights ? sums_kernel<8, Source> : sums_kernel<1, Source>,
      {dim3(
           static_cast<unsigned>((shape.columns + columns - 1) / columns),
           static_cast<unsigned>(column_parts(shape))),
       dim3(across, rows_at_once)},
      stream,
      shape.rows,
      shape.columns,
      source,
      parts);
}

bool is_empty(const MatrixShape& shape) {
  return shape.rows <= 0 || shape.columns <= 0;
}

/// A warp's worth of columns for each block; each row of threads sums every
/// `parts_at_once`-th part.
__global__ void __launch_bounds__(across* parts_at_once) parts_kernel(
    const float* parts,
    std::int64_t count,
    std::int64_t columns,
    void* to,
    Element element,
    bool add) {
  __shared__ float sums[parts_at_once][across];
  const std::int64_t column =
      static_cast<std::int64_t>(blockIdx.x) * across + threadIdx.x;
  float own = 0;
  if (column < columns) {
    for (std::int64_t i = threadIdx.y; i < count; i += parts_at_once) {
      own += parts[i * columns + column];
    }
  }
  sums[threadIdx.y][threadIdx.x] = own;
  __syncthreads();
  if (threadIdx.y == 0 && column < columns) {
    Lane result[1];
    Lane old[1];
    result[0].value = 0;
#pragma unroll
    for (int i = 0; i < parts_at_once; ++i) {
      result[0].value += sums[i][threadIdx.x];
    }
    if (add) {
      load(to, element, column, old);
      result[0].value += old[0].value;
    }
    store(result, to, element, column);
  }
}

} // namespace

std::int64_t column_parts(const MatrixShape& shape) {
  // About a thousand blocks, of no less than 64 rows each.
  const std::int64_t blocks = (shape.columns + 255) / 256;
  const std::int64_t most = std::max<std::int64_t>(shape.rows / 64, 1);
  return std::clamp<std::int64_t>(
      1024 / std::max<std::int64_t>(blocks, 1),
      1,
      most);
}

const char* column_sums(
    const MatrixShape& shape,
    const void* matrix,
    float* parts,
    void* stream) {
  if (is_empty(shape)) {
    return nullptr;
  }
  const bool eights = shape.columns % 8 == 0 && aligned_for_eight(matrix);
  const char* failure = nullptr;
  with_element(shape.element, [&](auto element) {
    failure = sum_columns(
        shape,
        eights,
        ReadElements<element()>{matrix},
        parts,
        stream);
  });
  return failure;
}

const char* gelu_backward(
    const MatrixShape& shape,
    Gelu kind,
    const void* gradient,
    const void* x,
    void* of_x,
    float* parts,
    void* stream) {
  if (is_empty(shape)) {
    return nullptr;
  }
  const bool eights = shape.columns % 8 == 0 && aligned_for_eight(gradient) &&
      aligned_for_eight(x) && aligned_for_eight(of_x);
  const char* failure = nullptr;
  with_element(shape.element, [&](auto element) {
    failure = sum_columns(
        shape,
        eights,
        GeluGradients<element()>{kind, gradient, x, of_x},
        parts,
        stream);
  });
  return failure;
}

const char* sum_of_parts(
    const float* parts,
    std::int64_t count,
    std::int64_t columns,
    void* to,
    Element element,
    bool add,
    void* stream) {
  if (columns <= 0) {
    return nullptr;
  }
  return launch(
      parts_kernel,
      {static_cast<unsigned>((columns + across - 1) / across),
       dim3(across, parts_at_once)},
      stream,
      parts,
      count,
      columns,
      to,
      element,
      add);
}

} // namespace cairn::kernels::cuda
