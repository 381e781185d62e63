#pragma once

#include "kernels/cuda/block.cuh"
#include "kernels/cuda/for_each.cuh"
#include "kernels/cuda/fp8_words.cuh"
#include "kernels/internal/cuda/fp8.h"

namespace cairn::kernels::cuda::fp8_squares {

// How a matrix becomes fp8 in both orders: square by square.

/// A block turns a square of this many rows and columns into fp8.
inline constexpr int tile = 128;
inline constexpr int across = tile / 8; ///< threads for a row of it
inline constexpr int rows_at_once = block_size / across;
/// Words from one row of the square to the next in shared memory. One more than
/// needed, so that the rows of a column are in different banks.
inline constexpr int pitch = tile / 4 + 1;

/// Blocks that a processor of the GPU is to run at once: while some compute or
/// transpose, the others read.
inline constexpr int least_blocks_at_once = 4;

/// Place of a word of the square in shared memory. Each group of 16 rows is
/// turned by four words more than the one before, so that the threads of a warp
/// that read the same words of all groups find them in different banks.
__device__ inline int place_of(int row, int word) {
  return row * pitch + (word + row / 16 * 4) % (tile / 4);
}

/// Values of which a larger part is not more than this are taken for zeros.
inline constexpr float least = 1e-30F;

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

/// `source(row, column, lanes)` gives eight values of a row.
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
        source(top + r + j * rows_at_once, column, lanes[j]);
      }
#pragma unroll
      for (int j = 0; j < at_once; ++j) {
        take(r + j * rows_at_once, lanes[j]);
      }
    }
  } else if (column < columns) {
    for (int r = first_row; r < tile && top + r < rows; r += rows_at_once) {
      Lane lanes[8];
      source(top + r, column, lanes);
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
    // Rounding made the largest number of an infinite value; "not a number" in
    // one element shows that there was one.
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

/// Blocks for a matrix, one for each square.
inline dim3 squares_of(std::int64_t rows, std::int64_t columns) {
  return dim3(
      static_cast<unsigned>((columns + tile - 1) / tile),
      static_cast<unsigned>((rows + tile - 1) / tile));
}

/// Rounds what `source` gives. `count` parts of largest values make the unit;
/// without any the unit that is there is used.
template <class Source>
const char* round_squares(
    std::int64_t rows,
    std::int64_t columns,
    const Source& source,
    const float* parts,
    std::int64_t count,
    const Fp8Target& target,
    void* stream) {
  return launch(
      target.format == Fp8::e4m3 ? fp8_kernel<Fp8::e4m3, Source>
                                 : fp8_kernel<Fp8::e5m2, Source>,
      {squares_of(rows, columns), block_size},
      stream,
      rows,
      columns,
      source,
      parts,
      static_cast<int>(count),
      target);
}

} // namespace cairn::kernels::cuda::fp8_squares
