#include "kernels/cuda/for_each.cuh"
#include "kernels/internal/cuda/cuda.h"

namespace cairn::kernels::cuda {
namespace {

struct AccumulateElements {
  float* into;
  const void* from;
  Element element;
  Lane factor;
  bool overwrite;

  template <int width>
  __device__ void operator()(std::int64_t i) const {
    Lane value[width];
    Lane sum[width];
    load(from, element, i, value);
    if (!overwrite) {
      load(into, Element::fp32, i, sum);
    }
#pragma unroll
    for (int j = 0; j < width; ++j) {
      sum[j] = overwrite ? value[j] * factor : fma(value[j], factor, sum[j]);
    }
    store(sum, into, Element::fp32, i);
  }
};

struct ConvertElements {
  const void* from;
  Element from_type;
  void* to;
  Element to_type;

  template <int width>
  __device__ void operator()(std::int64_t i) const {
    Lane value[width];
    load(from, from_type, i, value);
    store(value, to, to_type, i);
  }
};

} // namespace

const char* accumulate(
    float* into,
    const void* from,
    Element element,
    std::int64_t count,
    Accumulation how,
    void* stream) {
  Lane factor;
  factor.value = how.factor;
  const bool fours = aligned(into, Element::fp32) && aligned(from, element);
  return for_each(
      count,
      fours,
      AccumulateElements{into, from, element, factor, how.overwrite},
      stream);
}

const char* convert(
    const void* from,
    Element from_type,
    void* to,
    Element to_type,
    std::int64_t count,
    void* stream) {
  const bool fours = aligned(from, from_type) && aligned(to, to_type);
  return for_each(
      count,
      fours,
      ConvertElements{from, from_type, to, to_type},
      stream);
}

} // namespace cairn::kernels::cuda
