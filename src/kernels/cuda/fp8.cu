#include "kernels/internal/cuda/fp8.h"

#include <type_traits>

#include "kernels/cuda/block.cuh"
#include "kernels/cuda/for_each.cuh"
#include "kernels/cuda/fp8_words.cuh"
#include "kernels/cuda/gelu.cuh"

namespace cairn::kernels::cuda {
namespace {

/// A block turns a square of this many rows and columns into fp8.
constexpr int tile = 128;
constexpr int across = tile / 8; ///< threads for a row of it
constexpr int rows_at_once = block_size / across;
/// Words from one row of the square to the next in shared memory. One more than
/// needed, so that the rows of a column are in different banks.
constexpr int pitch = tile / 4 + 1;

/// Blocks that a processor of the GPU is to run at once: while some compute or
/// transpose, the others read.
constexpr int least_blocks_at_once = 4;

/// Place of a word of the square in shared memory. Each group of 16 rows is
/// turned by four words more than the one before, so that the threads of a warp
/// that read the same words of all groups find them in different banks.
__device__ inline int place_of(int row, int word) {
  return row * pitch + (word + row / 16 * 4) % (tile / 4);
}

/// Values of which a larger part is not more than this are taken for zeros.
constexpr float least = 1e-30F;

/// `kind` counts where there is a GELU.
template <Element element, Fp8Source::Of of, Gelu kind>
struct Values {
  const void* matrix;
  const void* sums;
  const void* other;

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
        source.other});
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

/// Transposes four rows of four bytes.
__device__ inline void transpose(std::uint32_t (&words)[4]) {
  const std::uint32_t a = __byte_perm(words[0], words[1], 0x5140U);
  const std::uint32_t b = __byte_perm(words[2], words[3], 0x5140U);
  const std::uint32_t c = __byte_perm(words[0], words[1], 0x7362U);
  const std::uint32_t d = __byte_perm(words[2], words[3], 0x7362U);
  words[0] = __byte_perm(a, b, 0x5410U);
  words[1] = __byte_perm(a, b, 0x7632U);
  words[2] = __byte_perm(c, d, 0x5410U);
  words[3] = __byte_perm(c, d, 0x7632U);
}

/// Writes the square that the block's threads left in shared memory, column by
/// column: each thread four columns of 16 rows.
__device__ inline void write_columns(
    const std::uint32_t* words,
    std::int64_t rows,
    std::int64_t columns,
    std::uint8_t* to) {
  const int group = static_cast<int>(threadIdx.x) % (tile / 16);
  const int word = static_cast<int>(threadIdx.x) / (tile / 16);
  const std::int64_t row =
      static_cast<std::int64_t>(blockIdx.y) * tile + group * 16;
  const std::int64_t column =
      static_cast<std::int64_t>(blockIdx.x) * tile + word * 4;
  if (row >= rows || column >= columns) {
    return;
  }
  uint4 of_columns[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    std::uint32_t four[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      four[i] = words[place_of(group * 16 + j * 4 + i, word)];
    }
    transpose(four);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      reinterpret_cast<std::uint32_t*>(&of_columns[k])[j] = four[k];
    }
  }
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    *reinterpret_cast<uint4*>(to + (column + k) * rows + row) = of_columns[k];
  }
}

template <Fp8 format, class Source>
__global__ void __launch_bounds__(block_size, least_blocks_at_once) fp8_kernel(
    std::int64_t rows,
    std::int64_t columns,
    Source source,
    const float* parts,
    int count,
    Fp8Target target) {
  __shared__ std::uint32_t words[tile * pitch];
  __shared__ float sums[rows_at_once][tile];
  constexpr float limit = format == Fp8::e4m3 ? 448.0F : 57344.0F;
  const bool keeps_unit = count == 0;
  float unit = 0;
  if (!keeps_unit) {
    float most = 0;
    for (int i = static_cast<int>(threadIdx.x); i < count; i += block_size) {
      most = Largest()(most, parts[i]);
    }
    most = over_block(most, Largest(), 0);
    unit = most < least ? 1 : most / limit;
    if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) {
      *target.unit = unit;
      if (target.largest != nullptr && most <= largest_float) {
        raise(target.largest, most);
      }
    }
  } else {
    unit = *target.unit;
  }
  const float factor = 1 / unit;

  const int first_row = static_cast<int>(threadIdx.x) / across;
  const int own_column = static_cast<int>(threadIdx.x) % across * 8;
  const std::int64_t top = static_cast<std::int64_t>(blockIdx.y) * tile;
  const std::int64_t column =
      static_cast<std::int64_t>(blockIdx.x) * tile + own_column;
  float own[8] = {};
  float own_most = 0;
  const auto take = [&](int r, const Lane(&lanes)[8]) {
    const uint2 pair{
        word_of<format>(lanes, factor),
        word_of<format>(lanes + 4, factor)};
    if (target.rows != nullptr) {
      *reinterpret_cast<uint2*>(
          static_cast<std::uint8_t*>(target.rows) + (top + r) * columns +
          column) = pair;
    }
    words[place_of(r, own_column / 4)] = pair.x;
    words[place_of(r, own_column / 4 + 1)] = pair.y;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      own[k] += lanes[k].value;
    }
    if (keeps_unit) {
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        own_most = fmaxf(own_most, fabsf(lanes[k].value));
      }
    }
  };
  if (top + tile <= rows && column < columns) {
    // Several reads are on their way at a time.
    constexpr int at_once = 4;
    for (int r = first_row; r < tile; r += at_once * rows_at_once) {
      Lane lanes[at_once][8];
#pragma unroll
      for (int j = 0; j < at_once; ++j) {
        source((top + r + j * rows_at_once) * columns + column, lanes[j]);
      }
#pragma unroll
      for (int j = 0; j < at_once; ++j) {
        take(r + j * rows_at_once, lanes[j]);
      }
    }
  } else if (column < columns) {
    for (int r = first_row; r < tile && top + r < rows; r += rows_at_once) {
      Lane lanes[8];
      source((top + r) * columns + column, lanes);
      take(r, lanes);
    }
  }
  if (target.column_sums != nullptr) {
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      sums[first_row][own_column + k] = own[k];
    }
  }
  if (own_most > largest_float) {
    // What was infinite became the largest number: one element must show it.
    if (target.rows != nullptr) {
      static_cast<std::uint8_t*>(
          target.rows)[(top + first_row) * columns + column] = fp8_no_number;
    }
    std::uint32_t& word = words[place_of(first_row, own_column / 4)];
    word = (word & ~0xffU) | fp8_no_number;
  }
  __syncthreads();
  if (target.columns != nullptr) {
    write_columns(
        words,
        rows,
        columns,
        static_cast<std::uint8_t*>(target.columns));
  }
  const std::int64_t summed =
      static_cast<std::int64_t>(blockIdx.x) * tile + threadIdx.x;
  if (target.column_sums != nullptr && threadIdx.x < tile && summed < columns) {
    float sum = 0;
#pragma unroll
    for (const auto& of_row : sums) {
      sum += of_row[threadIdx.x];
    }
    target.column_sums[blockIdx.y * columns + summed] = sum;
  }
  if (keeps_unit && target.largest != nullptr) {
    const float most =
        over_block(own_most <= largest_float ? own_most : 0, Largest(), 1);
    if (threadIdx.x == 0) {
      raise(target.largest, most);
    }
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

/// Blocks for a matrix, one for each square.
dim3 squares_of(std::int64_t rows, std::int64_t columns) {
  return dim3(
      static_cast<unsigned>((columns + tile - 1) / tile),
      static_cast<unsigned>((rows + tile - 1) / tile));
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
    using Source = std::decay_t<decltype(values)>;
    return launch(
        target.format == Fp8::e4m3 ? fp8_kernel<Fp8::e4m3, Source>
                                   : fp8_kernel<Fp8::e5m2, Source>,
        {squares_of(shape.rows, shape.columns), block_size},
        stream,
        shape.rows,
        shape.columns,
        values,
        parts,
        parts != nullptr ? static_cast<int>(largest_count(shape)) : 0,
        target);
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
