#include "kernels/internal/cuda/dropout.h"

#include <algorithm>

#include "kernels/cuda/lane.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/formulas/dropout_bits.h"

namespace cairn::kernels::cuda {
namespace {

constexpr unsigned threads_of_a_block = 256;
constexpr unsigned warp = 32;

template <Element element, int width>
__device__ void drop(
    const DropoutRows& x,
    const Philox4x32& draw,
    int column,
    const void* from,
    void* to,
    std::int64_t i) {
  Lane lanes[width];
  load(from, element, i, lanes);
#pragma unroll
  for (int k = 0; k < width; ++k) {
    lanes[k].value = bits_of(draw, column + k) < x.threshold
        ? 0.0F
        : __fmul_rn(lanes[k].value, x.scale);
  }
  store(lanes, to, element, i);
}

/// A thread takes eight columns of a row; threads beside each other take
/// columns beside each other, and threads above each other rows.
template <Element element, bool whole_eights>
__global__ void dropout_kernel(DropoutRows x, const void* from, void* to) {
  const auto eights = static_cast<std::uint32_t>(
      (x.columns + columns_of_a_draw - 1) / columns_of_a_draw);
  const auto first_eight =
      static_cast<std::uint32_t>(x.first_column / columns_of_a_draw);
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.y;
  for (std::int64_t row =
           static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
       row < x.rows;
       row += stride) {
    const RowCounter counter = counter_of(x, row);
    for (std::uint32_t eight = threadIdx.x; eight < eights;
         eight += blockDim.x) {
      const Philox4x32 draw = draw_of(counter, x.key, first_eight + eight);
      const std::int64_t first =
          static_cast<std::int64_t>(eight) * columns_of_a_draw;
      const std::int64_t i = row * x.columns + first;
      if constexpr (whole_eights) {
        drop<element, columns_of_a_draw>(x, draw, 0, from, to, i);
      } else {
#pragma unroll
        for (int k = 0; k < columns_of_a_draw; ++k) {
          if (first + k < x.columns) {
            drop<element, 1>(x, draw, k, from, to, i + k);
          }
        }
      }
    }
  }
}

Grid grid_of(const DropoutRows& x) {
  const std::int64_t eights =
      (x.columns + columns_of_a_draw - 1) / columns_of_a_draw;
  unsigned across = 1;
  while (across < warp && across < eights) {
    across *= 2;
  }
  while (across < threads_of_a_block && across < eights) {
    across += warp;
  }
  const unsigned rows = threads_of_a_block / across;
  // Beyond 2^20 blocks each thread takes several turns.
  const auto blocks = static_cast<unsigned>(
      std::min<std::int64_t>((x.rows + rows - 1) / rows, 1 << 20));
  return {{blocks}, {across, rows}};
}

} // namespace

const char* dropout_rows(
    const DropoutRows& x,
    const void* from,
    void* to,
    void* stream) {
  if (x.rows <= 0 || x.columns <= 0) {
    return nullptr;
  }
  const bool whole_eights = x.columns % columns_of_a_draw == 0 &&
      aligned_for_eight(from) && aligned_for_eight(to);
  const char* failure = nullptr;
  with_element(x.element, [&](auto type) {
    failure = launch(
        whole_eights ? dropout_kernel<type(), true>
                     : dropout_kernel<type(), false>,
        grid_of(x),
        stream,
        x,
        from,
        to);
  });
  return failure;
}

} // namespace cairn::kernels::cuda
