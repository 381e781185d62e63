#include "kernels/internal/cuda/clip.h"

#include <cmath>

#include "kernels/cuda/launch.cuh"

namespace cairn::kernels::cuda {
namespace {

constexpr int threads = 256;

/// One block. Its first thread adds up what the others have summed, always in
/// the same order.
__global__ void __launch_bounds__(threads) clip_kernel(
    const float* norms,
    std::int64_t count,
    Clip clip,
    double* norm,
    float* factor) {
  __shared__ double squares[threads];
  double own = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += threads) {
    own += static_cast<double>(norms[i]) * static_cast<double>(norms[i]);
  }
  squares[threadIdx.x] = own;
  __syncthreads();
  if (threadIdx.x == 0) {
    double sum = 0;
    for (const double each : squares) {
      sum += each;
    }
    const double all = sqrt(sum) * clip.factor;
    *norm = all;
    // Rounded, so that the order of the sum does not show.
    const double rounded = static_cast<float>(all);
    const double limited = clip.limit / (rounded + 1e-6);
    *factor = static_cast<float>(
        clip.limit > 0 && limited < 1 ? clip.factor * limited : clip.factor);
  }
}

} // namespace

const char* clip_factor(
    const float* norms,
    std::int64_t count,
    const Clip& clip,
    double* norm,
    float* factor,
    void* stream) {
  return launch(
      clip_kernel,
      {1, threads},
      stream,
      norms,
      count,
      clip,
      norm,
      factor);
}

} // namespace cairn::kernels::cuda
