#include "kernels/cuda/for_each.cuh"
#include "kernels/internal/cuda/cuda.h"

namespace cairn::kernels::cuda {
namespace {

struct ScaleElements {
  const void* from;
  Element from_type;
  const float* factor;
  void* to;
  Element to_type;

  template <int width>
  __device__ void operator()(std::int64_t i) const {
    Lane value[width];
    load(from, from_type, i, value);
    const Lane by(*factor);
#pragma unroll
    for (int j = 0; j < width; ++j) {
      value[j] = value[j] * by;
    }
    store(value, to, to_type, i);
  }
};

} // namespace

const char* scale(
    const void* from,
    Element from_type,
    const float* factor,
    void* to,
    Element to_type,
    std::int64_t count,
    void* stream) {
  const bool fours = aligned(from, from_type) && aligned(to, to_type);
  return for_each(
      count,
      fours,
      ScaleElements{from, from_type, factor, to, to_type},
      stream);
}

} // namespace cairn::kernels::cuda
