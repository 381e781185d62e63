#include "kernels/internal/cuda/mix_rows.h"

#include "kernels/cuda/block.cuh"
#include "kernels/cuda/lane.cuh"
#include "kernels/cuda/launch.cuh"

namespace cairn::kernels::cuda {
namespace {

constexpr int most_threads = 256; ///< of a block, which has one row

template <Element element, int width>
__global__ void __launch_bounds__(most_threads) mix_kernel(
    MixedRows shape,
    const void* x,
    const std::int64_t* rows,
    const float* weights,
    void* y) {
  const std::int64_t i = blockIdx.x;
  for (std::int64_t column = static_cast<std::int64_t>(threadIdx.x) * width;
       column < shape.columns;
       column += static_cast<std::int64_t>(blockDim.x) * width) {
    Lane sums[width];
#pragma unroll
    for (int k = 0; k < width; ++k) {
      sums[k].value = 0;
    }
    for (std::int64_t j = 0; j < shape.picks; ++j) {
      const std::int64_t row = rows[j * shape.count + i];
      if (row >= shape.from) {
        continue;
      }
      const float weight =
          weights != nullptr ? weights[j * shape.count + i] : 1.0F;
      Lane lanes[width];
      load(x, element, row * shape.columns + column, lanes);
#pragma unroll
      for (int k = 0; k < width; ++k) {
        sums[k].value += lanes[k].value * weight;
      }
    }
    store(sums, y, element, i * shape.columns + column);
  }
}

template <Element element, int width>
__global__ void __launch_bounds__(most_threads) mix_backward_kernel(
    MixedRows shape,
    const void* gradient,
    const void* x,
    const std::int64_t* comers,
    const float* weights,
    void* of_x,
    float* of_weights) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t place = comers[row];
  const bool named = place < shape.picks * shape.count;
  const float weight = named ? weights[place] : 0.0F;
  const std::int64_t from = (named ? place % shape.count : 0) * shape.columns;
  float dot = 0;
  for (std::int64_t column = static_cast<std::int64_t>(threadIdx.x) * width;
       column < shape.columns;
       column += static_cast<std::int64_t>(blockDim.x) * width) {
    Lane lanes[width];
    if (named) {
      Lane answers[width];
      load(gradient, element, from + column, lanes);
      load(x, element, row * shape.columns + column, answers);
#pragma unroll
      for (int k = 0; k < width; ++k) {
        dot += lanes[k].value * answers[k].value;
        lanes[k].value *= weight;
      }
    } else {
#pragma unroll
      for (int k = 0; k < width; ++k) {
        lanes[k].value = 0;
      }
    }
    store(lanes, of_x, element, row * shape.columns + column);
  }
  dot = over_block(dot, Add(), 0);
  if (named && threadIdx.x == 0) {
    of_weights[place] = dot;
  }
}

int threads_of(const MixedRows& shape, int width) {
  return threads_for((shape.columns + width - 1) / width, most_threads);
}

} // namespace

const char* mix_rows(
    const MixedRows& shape,
    const void* x,
    const std::int64_t* rows,
    const float* weights,
    void* y,
    void* stream) {
  if (shape.count <= 0 || shape.columns <= 0) {
    return nullptr;
  }
  const bool eights =
      shape.columns % 8 == 0 && aligned_for_eight(x) && aligned_for_eight(y);
  const char* failure = nullptr;
  with_element(shape.element, [&](auto element) {
    failure = launch(
        eights ? mix_kernel<element(), 8> : mix_kernel<element(), 1>,
        {static_cast<unsigned>(shape.count), threads_of(shape, eights ? 8 : 1)},
        stream,
        shape,
        x,
        rows,
        weights,
        y);
  });
  return failure;
}

const char* mix_rows_backward(
    const MixedRows& shape,
    const void* gradient,
    const void* x,
    const std::int64_t* comers,
    const float* weights,
    void* of_x,
    float* of_weights,
    void* stream) {
  if (shape.from <= 0 || shape.columns <= 0) {
    return nullptr;
  }
  const bool eights = shape.columns % 8 == 0 && aligned_for_eight(gradient) &&
      aligned_for_eight(x) && aligned_for_eight(of_x);
  const char* failure = nullptr;
  with_element(shape.element, [&](auto element) {
    failure = launch(
        eights ? mix_backward_kernel<element(), 8>
               : mix_backward_kernel<element(), 1>,
        {static_cast<unsigned>(shape.from), threads_of(shape, eights ? 8 : 1)},
        stream,
        shape,
        gradient,
        x,
        comers,
        weights,
        of_x,
        of_weights);
  });
  return failure;
}

} // namespace cairn::kernels::cuda
