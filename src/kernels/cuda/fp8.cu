#include "kernels/internal/cuda/fp8.h"

#include <type_traits>

#include "kernels/cuda/fp8_squares.cuh"
#include "kernels/cuda/gelu.cuh"

namespace cairn::kernels::cuda {
namespace {

using fp8_squares::across;
using fp8_squares::pitch;
using fp8_squares::place_of;
using fp8_squares::rows_at_once;
using fp8_squares::squares_of;
using fp8_squares::tile;
using fp8_squares::write_columns;

/// `kind` counts where there is a GELU.
template <Element element, Fp8Source::Of of, Gelu kind>
struct Values {
  const void* matrix;
  const void* sums;
  const void* other;
  std::int64_t columns;

  __device__ void operator()(
      std::int64_t row,
      std::int64_t column,
      Lane (&lanes)[8]) const {
    (*this)(row * columns + column, lanes);
  }

  __device__ void operator()(std::int64_t i, Lane (&lanes)[8]) const {
    load(matrix, element, i, lanes);
    if constexpr (of == Fp8Source::Of::gelu) {
#pragma unroll
      for (Lane& lane : lanes) {
        lane.value = gelu(lane.value, kind);
      }
    } else if constexpr (of == Fp8Source::Of::gelu_gradient) {
      Lane at[8];
      load(sums, element, i, at);
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        lanes[k].value *= gelu_slope(at[k].value, kind);
      }
    } else if constexpr (of == Fp8Source::Of::silu_product) {
      Lane at[8];
      load(sums, element, i, at);
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        lanes[k].value *= at[k].value * sigmoid(at[k].value);
      }
    } else if constexpr (of == Fp8Source::Of::silu_gradient) {
      Lane at[8];
      Lane by[8];
      load(sums, element, i, at);
      load(other, element, i, by);
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        const float s = sigmoid(at[k].value);
        lanes[k].value *= by[k].value * s * (1 + at[k].value * (1 - s));
      }
    }
  }
};

/// A value that no gradient of a GELU exceeds, in place of the gradient: its
/// matrix times the largest slope. It takes half the reading, and the wide
/// range of gradients' formats has room for the difference.
template <Element element>
struct GradientBounds {
  const void* matrix;

  __device__ void operator()(std::int64_t i, Lane (&lanes)[8]) const {
    constexpr float steepest = 1.13F;
    load(matrix, element, i, lanes);
#pragma unroll
    for (Lane& lane : lanes) {
      lane.value *= steepest;
    }
  }
};

/// Calls `work` with the element, of 16 bits, as a constant of the compiler's.
template <class Work>
void with_narrow_element(Element element, const Work& work) {
  element == Element::bf16
      ? work(std::integral_constant<Element, Element::bf16>())
      : work(std::integral_constant<Element, Element::fp16>());
}

/// Calls `work` with the values as a function of the place in the matrix.
template <class Work>
const char* with_values(const Fp8Source& source, const Work& work) {
  const char* failure = nullptr;
  using Tanh = std::integral_constant<Gelu, Gelu::tanh>;
  const auto call = [&](auto element, auto of, auto kind) {
    failure = work(Values<element(), of(), kind()>{
        source.matrix,
        source.sums,
        source.other,
        source.shape.columns});
  };
  const auto call_gelu = [&](auto element, auto of) {
    source.gelu == Gelu::tanh
        ? call(element, of, Tanh())
        : call(element, of, std::integral_constant<Gelu, Gelu::exact>());
  };
  using Of = Fp8Source::Of;
  with_narrow_element(source.shape.element, [&](auto element) {
    switch (source.of) {
      case Of::matrix:
        return call(element, std::integral_constant<Of, Of::matrix>(), Tanh());
      case Of::gelu:
        return call_gelu(element, std::integral_constant<Of, Of::gelu>());
      case Of::gelu_gradient:
        return call_gelu(
            element,
            std::integral_constant<Of, Of::gelu_gradient>());
      case Of::silu_product:
        return call(
            element,
            std::integral_constant<Of, Of::silu_product>(),
            Tanh());
      case Of::silu_gradient:
        return call(
            element,
            std::integral_constant<Of, Of::silu_gradient>(),
            Tanh());
    }
  });
  return failure;
}

template <class Source>
__global__ void __launch_bounds__(block_size)
    largest_kernel(std::int64_t count, Source source, float* parts) {
  const Largest larger;
  const std::int64_t stride =
      static_cast<std::int64_t>(gridDim.x) * block_size * 8;
  float own = 0;
  std::int64_t i =
      (static_cast<std::int64_t>(blockIdx.x) * block_size + threadIdx.x) * 8;
  // Several reads are on their way at a time.
  constexpr int at_once = 4;
  for (; i + (at_once - 1) * stride < count; i += at_once * stride) {
    Lane lanes[at_once][8];
#pragma unroll
    for (int j = 0; j < at_once; ++j) {
      source(i + j * stride, lanes[j]);
    }
#pragma unroll
    for (const auto& some : lanes) {
#pragma unroll
      for (const Lane& lane : some) {
        own = larger(own, lane.value);
      }
    }
  }
  for (; i < count; i += stride) {
    Lane lanes[8];
    source(i, lanes);
#pragma unroll
    for (const Lane& lane : lanes) {
      own = larger(own, lane.value);
    }
  }
  own = over_block(own, larger, 0);
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = own;
  }
}

__global__ void __launch_bounds__(block_size) transpose_kernel(
    std::int64_t rows,
    std::int64_t columns,
    const std::uint8_t* from,
    std::uint8_t* to) {
  __shared__ std::uint32_t words[tile * pitch];
  const int first_row = static_cast<int>(threadIdx.x) / across;
  const int own_column = static_cast<int>(threadIdx.x) % across * 8;
  const std::int64_t top = static_cast<std::int64_t>(blockIdx.y) * tile;
  const std::int64_t column =
      static_cast<std::int64_t>(blockIdx.x) * tile + own_column;
  if (column < columns) {
#pragma unroll
    for (int r = first_row; r < tile; r += rows_at_once) {
      if (top + r < rows) {
        const uint2 pair = *reinterpret_cast<const uint2*>(
            from + (top + r) * columns + column);
        words[place_of(r, own_column / 4)] = pair.x;
        words[place_of(r, own_column / 4 + 1)] = pair.y;
      }
    }
  }
  __syncthreads();
  write_columns(words, rows, columns, to);
}

} // namespace

std::int64_t largest_count(const MatrixShape& shape) {
  const std::int64_t blocks =
      (shape.rows * shape.columns + 8 * block_size - 1) / (8 * block_size);
  return std::clamp<std::int64_t>(blocks, 1, 1024);
}

std::int64_t fp8_sum_parts(const MatrixShape& shape) {
  return (shape.rows + tile - 1) / tile;
}

const char* largest_parts(const Fp8Source& source, float* parts, void* stream) {
  const auto find = [&](const auto& values) {
    return launch(
        largest_kernel<std::decay_t<decltype(values)>>,
        {static_cast<unsigned>(largest_count(source.shape)), block_size},
        stream,
        source.shape.rows * source.shape.columns,
        values,
        parts);
  };
  if (source.of != Fp8Source::Of::gelu_gradient) {
    return with_values(source, find);
  }
  const char* failure = nullptr;
  with_narrow_element(source.shape.element, [&](auto element) {
    failure = find(GradientBounds<element()>{source.matrix});
  });
  return failure;
}

const char* to_fp8(
    const Fp8Source& source,
    const float* parts,
    const Fp8Target& target,
    void* stream) {
  const MatrixShape& shape = source.shape;
  if (shape.rows <= 0 || shape.columns <= 0) {
    return nullptr;
  }
  return with_values(source, [&](const auto& values) {
    return fp8_squares::round_squares(
        shape.rows,
        shape.columns,
        values,
        parts,
        parts != nullptr ? largest_count(shape) : 0,
        target,
        stream);
  });
}

const char* transpose_fp8(
    std::int64_t rows,
    std::int64_t columns,
    const void* from,
    void* to,
    void* stream) {
  if (rows <= 0 || columns <= 0) {
    return nullptr;
  }
  return launch(
      transpose_kernel,
      {squares_of(rows, columns), block_size},
      stream,
      rows,
      columns,
      static_cast<const std::uint8_t*>(from),
      static_cast<std::uint8_t*>(to));
}

} // namespace cairn::kernels::cuda
