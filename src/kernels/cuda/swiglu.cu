#include "kernels/internal/cuda/swiglu.h"

#include "kernels/cuda/fast_math.cuh"
#include "kernels/cuda/for_each.cuh"

namespace cairn::kernels::cuda {
namespace {

template <Element element>
struct Forward {
  const void* gate;
  const void* up;
  void* y;

  template <int width>
  __device__ void operator()(std::int64_t i) const {
    Lane gates[width];
    Lane ups[width];
    load(gate, element, i, gates);
    load(up, element, i, ups);
#pragma unroll
    for (int k = 0; k < width; ++k) {
      const float x = gates[k].value;
      ups[k].value *= x * sigmoid(x);
    }
    store(ups, y, element, i);
  }
};

template <Element element>
struct Backward {
  const void* gradient;
  const void* gate;
  const void* up;
  void* of_gate;
  void* of_up;

  template <int width>
  __device__ void operator()(std::int64_t i) const {
    Lane gradients[width];
    Lane gates[width];
    Lane ups[width];
    load(gradient, element, i, gradients);
    load(gate, element, i, gates);
    load(up, element, i, ups);
#pragma unroll
    for (int k = 0; k < width; ++k) {
      const float x = gates[k].value;
      const float s = sigmoid(x);
      gates[k].value =
          gradients[k].value * ups[k].value * s * (1 + x * (1 - s));
      ups[k].value = gradients[k].value * x * s;
    }
    store(gates, of_gate, element, i);
    store(ups, of_up, element, i);
  }
};

template <class... Pointers>
bool all_aligned(Element element, const Pointers*... pointers) {
  return (aligned(pointers, element) && ...);
}

} // namespace

const char* swiglu_forward(
    Element element,
    std::int64_t count,
    const void* gate,
    const void* up,
    void* y,
    void* stream) {
  const char* failure = nullptr;
  with_element(element, [&](auto type) {
    failure = for_each(
        count,
        all_aligned(element, gate, up, y),
        Forward<type()>{gate, up, y},
        stream);
  });
  return failure;
}

const char* swiglu_backward(
    Element element,
    std::int64_t count,
    const void* gradient,
    const void* gate,
    const void* up,
    void* of_gate,
    void* of_up,
    void* stream) {
  const char* failure = nullptr;
  with_element(element, [&](auto type) {
    failure = for_each(
        count,
        all_aligned(element, gradient, gate, up, of_gate, of_up),
        Backward<type()>{gradient, gate, up, of_gate, of_up},
        stream);
  });
  return failure;
}

} // namespace cairn::kernels::cuda
