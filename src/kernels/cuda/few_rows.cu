#include "kernels/internal/cuda/few_rows.h"

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/few_rows.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/tensor_core.cuh"

#include <algorithm>
#include <cstddef>

// A block has 8 outputs, or several times 8, and all of the depth, which its
// warps share. A step of a warp is 32 columns of 8 outputs: lane 4 g + t reads
// 16 bytes of output g, which are columns 8 t to 8 t + 7 of the step. A product
// of 16 x 8 x 16 takes two pairs of these from each lane, and the same columns
// of the rows of x: the order of columns in a sum is free. Rows of x are the
// product's first factor, of which 8 of 16 rows are used.
//
// The time is that of reading the weight. So a block asks for its first pieces,
// and asks the cache for the others, before it waits for the kernel ahead.

namespace cairn::kernels::cuda {
namespace {

/// Pieces that a thread has on the way.
constexpr int pieces_ahead = 10;

/// A piece of a weight, which is read once; zeros if it does not exist.
__device__ inline uint4 read_once(const uint4* from, bool exists) {
#ifdef __CUDA_ARCH__
  uint4 value;
  // Volatile, so that it stays ahead of the wait for other kernels.
  asm volatile("{\n"
               ".reg .pred exists;\n"
               "setp.ne.u32 exists, %5, 0;\n"
               "mov.u32 %0, 0;\n"
               "mov.u32 %1, 0;\n"
               "mov.u32 %2, 0;\n"
               "mov.u32 %3, 0;\n"
               "@exists ld.global.nc.L1::no_allocate.L2::128B.v4.u32 "
               "{%0, %1, %2, %3}, [%4];\n"
               "}"
               : "=&r"(value.x), "=&r"(value.y), "=&r"(value.z), "=&r"(value.w)
               : "l"(from), "r"(exists ? 1U : 0U));
  return value;
#else
  return exists ? *from : uint4{0, 0, 0, 0};
#endif
}

/// Asks the GPU's cache for memory at a multiple of 16 bytes.
__device__ inline void fetch_stretch(const void* from, unsigned bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;"
               :
               : "l"(from), "r"(bytes));
#else
  static_cast<void>(from);
  static_cast<void>(bytes);
#endif
}

/// The place of one result of a block.
struct Result {
  int row;
  int tile;
  int column; ///< of the tile
  unsigned output;
};

template <Element element, int tiles, bool gated>
__global__ void __launch_bounds__(few_threads, 3)
    few_rows_kernel(const FewRowsProduct x, const int step) {
  constexpr int count = gated ? 2 * tiles : tiles; ///< products of a step
  constexpr int ahead = count > pieces_ahead / 2 ? 2 : pieces_ahead / count;
  constexpr int outputs_at_once = 8 * tiles;
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const int warp = static_cast<int>(threadIdx.x) / warp_size;
  const int g = lane / 4;
  const int t = lane % 4;
  const int rows = static_cast<int>(x.rows);
  const auto outputs = static_cast<unsigned>(x.outputs);
  const auto pieces = static_cast<unsigned>(x.depth / piece);
  const int steps = static_cast<int>((pieces + step_pieces - 1) / step_pieces);
  const unsigned first_output = blockIdx.x * outputs_at_once;
  const auto* const weight = static_cast<const uint4*>(x.weight);
  const auto* const gate = static_cast<const uint4*>(x.gate);

  let_next_begin();
  // This thread's piece of the first step. Behind the last output is the last
  // one again, whose result is not written.
  unsigned begins[tiles];
#pragma unroll
  for (int i = 0; i < tiles; ++i) {
    const unsigned output = first_output + 8 * i + g;
    begins[i] = (output < outputs ? output : outputs - 1) * pieces + t;
  }
  const auto fetch = [&](uint4(&to)[count], int number) {
    const unsigned offset = static_cast<unsigned>(number) * step_pieces;
    const bool exists = offset + t < pieces;
#pragma unroll
    for (int i = 0; i < tiles; ++i) {
      to[i] = read_once(weight + begins[i] + offset, exists);
      if constexpr (gated) {
        to[tiles + i] = read_once(gate + begins[i] + offset, exists);
      }
    }
  };
  const int begin = warp * steps / few_warps;
  const int end = (warp + 1) * steps / few_warps;
  uint4 on_the_way[ahead][count];
#pragma unroll
  for (int s = 0; s < ahead; ++s) {
    if (begin + s < end) {
      fetch(on_the_way[s], begin + s);
    }
  }
  if (x.fetches_ahead && threadIdx.x == 0) {
    const unsigned own = first_output + outputs_at_once < outputs
        ? outputs_at_once
        : outputs - first_output;
    const unsigned bytes = own * pieces * 16;
    fetch_stretch(weight + first_output * pieces, bytes);
    if constexpr (gated) {
      fetch_stretch(gate + first_output * pieces, bytes);
    }
  }
  if (x.norm.gamma != nullptr) {
    for (unsigned i = threadIdx.x * 8; i < pieces; i += few_threads * 8) {
      fetch_line(static_cast<const uint4*>(x.norm.gamma) + i);
      if (x.norm.beta != nullptr) {
        fetch_line(static_cast<const uint4*>(x.norm.beta) + i);
      }
    }
  }
  // This thread's first result: what is added to it comes early.
  const auto result_of = [&](int i) {
    return Result{
        i / (8 * tiles),
        i / 8 % tiles,
        i % 8,
        first_output + static_cast<unsigned>(i % (8 * tiles))};
  };
  const int results = 8 * tiles * rows;
  const Result own = result_of(static_cast<int>(threadIdx.x));
  const bool has_result =
      static_cast<int>(threadIdx.x) < results && own.output < outputs;
  float bias = 0;
  float gate_bias = 0;
  float addend = 0;
  if (has_result) {
    bias = number_at<element>(x.bias, own.output);
    gate_bias = number_at<element>(x.gate_bias, own.output);
  }

  wait_for_earlier();
  if (has_result) {
    addend = number_at<element>(x.addend, own.row * x.outputs + own.output);
  }
  uint4* const own_x = shared_memory();
  if (x.norm.gamma != nullptr) {
    normalize_few<element>(x, own_x, step);
  } else {
    copy_few(x, own_x, step);
  }
  __syncthreads();

  float sums[count][4];
#pragma unroll
  for (int i = 0; i < count; ++i) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      sums[i][k] = 0;
    }
  }
  for (int number = begin; number < end; number += ahead) {
#pragma unroll
    for (int s = 0; s < ahead; ++s) {
      if (number + s < end) { // the same for all of the warp
        uint4 row{0, 0, 0, 0};
        if (g < rows) {
          row = own_x[g * step + (number + s) * step_pieces + t];
        }
        const std::uint32_t low[4] = {row.x, 0, row.y, 0};
        const std::uint32_t high[4] = {row.z, 0, row.w, 0};
#pragma unroll
        for (int i = 0; i < count; ++i) {
          const uint4 bits = on_the_way[s][i];
          multiply_add<element>(sums[i], low, bits.x, bits.y);
          multiply_add<element>(sums[i], high, bits.z, bits.w);
        }
        if (number + s + ahead < end) {
          fetch(on_the_way[s], number + s + ahead);
        }
      }
    }
  }

  // The warps' sums meet where x was.
  __syncthreads();
  auto* const parts = reinterpret_cast<float*>(own_x);
  if (g < rows) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      float* const part = parts + ((warp * count + i) * rows + g) * 8 + 2 * t;
      part[0] = sums[i][0];
      part[1] = sums[i][1];
    }
  }
  __syncthreads();
  const auto sum_of = [&](int product, int row, int column) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < few_warps; ++i) {
      sum += parts[((i * count + product) * rows + row) * 8 + column];
    }
    return sum;
  };
  for (int i = static_cast<int>(threadIdx.x); i < results; i += few_threads) {
    const Result result = result_of(i);
    if (result.output >= outputs) {
      continue;
    }
    const std::int64_t place = result.row * x.outputs + result.output;
    if (i >= few_threads) {
      bias = number_at<element>(x.bias, result.output);
      gate_bias = number_at<element>(x.gate_bias, result.output);
      addend = number_at<element>(x.addend, place);
    }
    Lane y[1];
    y[0].value = sum_of(result.tile, result.row, result.column) + bias;
    if constexpr (gated) {
      y[0].value *= activated(
          sum_of(tiles + result.tile, result.row, result.column) + gate_bias,
          x.activation);
    } else {
      y[0].value = activated(y[0].value, x.activation);
    }
    y[0].value += addend;
    store(y, x.y, x.y_element, place);
  }
}

std::size_t shared_bytes_of(const FewRowsProduct& x, int products) {
  const std::int64_t rows = x.rows * pieces_between(x.depth) * 16;
  const std::int64_t sums = std::int64_t{few_warps} * products * x.rows * 8 * 4;
  return static_cast<std::size_t>(std::max(rows, sums));
}

template <Element element, int tiles, bool gated>
const char* start_few_rows(const FewRowsProduct& x, Start start, void* stream) {
  const auto kernel = few_rows_kernel<element, tiles, gated>;
  const std::size_t bytes = shared_bytes_of(x, gated ? 2 * tiles : tiles);
  constexpr std::size_t without_asking = 48 << 10;
  if (bytes > without_asking) {
    cudaFuncSetAttribute(
        kernel,
        cudaFuncAttributeMaxDynamicSharedMemorySize,
        static_cast<int>(bytes));
  }
  const Grid grid{
      static_cast<unsigned>((x.outputs + 8 * tiles - 1) / (8 * tiles)),
      few_threads,
      bytes};
  const int step = pieces_between(x.depth);
  return start == Start::early ? launch_early(kernel, grid, stream, x, step)
                               : launch(kernel, grid, stream, x, step);
}

/// Calls `start` with the number of times 8 outputs of a block: so many that
/// all blocks run at once, two on a processor, where four are enough for that.
template <class Begin>
const char* with_tiles(const FewRowsProduct& x, const Begin& begin) {
  const std::int64_t blocks = 2 * processors();
  const std::int64_t all = (x.outputs + 7) / 8;
  const std::int64_t each = (all + blocks - 1) / blocks;
  if (each <= 1) {
    return begin(std::integral_constant<int, 1>());
  }
  if (each == 2 || x.gate != nullptr) {
    return begin(std::integral_constant<int, 2>());
  }
  return each == 3 ? begin(std::integral_constant<int, 3>())
                   : begin(std::integral_constant<int, 4>());
}

} // namespace

bool takes(const FewRowsProduct& x) {
  const auto eights = [](const void* pointer) {
    return aligned_for_eight(pointer);
  };
  return x.rows > 0 && x.rows <= most_few_rows && x.outputs > 0 &&
      x.depth > 0 && x.depth % piece == 0 && x.element != Element::fp32 &&
      x.outputs * (x.depth / piece) < std::int64_t{1} << 31 && eights(x.x) &&
      eights(x.weight) && eights(x.gate) && eights(x.norm.gamma) &&
      eights(x.norm.beta) &&
      shared_bytes_of(x, 4) + shared_reserve <= most_shared_bytes();
}

const char* multiply_few_rows(
    const FewRowsProduct& x,
    Start start,
    void* stream) {
  if (x.by_copies && takes_copies(x)) {
    return multiply_by_copies(x, start, stream);
  }
  return with_tiles(x, [&](auto tiles) {
    const auto with_gate = [&](auto element) -> const char* {
      if constexpr (tiles() <= 2) {
        if (x.gate != nullptr) {
          return start_few_rows<element(), tiles(), true>(x, start, stream);
        }
      }
      return start_few_rows<element(), tiles(), false>(x, start, stream);
    };
    return x.element == Element::bf16
        ? with_gate(std::integral_constant<Element, Element::bf16>())
        : with_gate(std::integral_constant<Element, Element::fp16>());
  });
}

} // namespace cairn::kernels::cuda
