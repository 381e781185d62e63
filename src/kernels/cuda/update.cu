#include "kernels/cuda/for_each.cuh"
#include "kernels/formulas.h"
#include "kernels/internal/cuda/cuda.h"

namespace cairn::kernels::cuda {
namespace {

template <class Formula>
struct UpdateElements {
  Formula formula;
  const float* weights;
  float* target;
  const void* gradients;
  Element gradient_type;
  void* copy;
  Element copy_type;
  float* states[2];
  const float* gradient_factor;

  template <int width>
  __device__ void operator()(std::int64_t i) const {
    constexpr int count = Formula::states;
    Lane gradient[width];
    Lane weight[width];
    Lane state[2][width];
    load(gradients, gradient_type, i, gradient);
    if (gradient_factor != nullptr) {
      const Lane factor(*gradient_factor);
#pragma unroll
      for (int j = 0; j < width; ++j) {
        gradient[j] = gradient[j] * factor;
      }
    }
    if constexpr (Formula::reads_weights) {
      load(weights, Element::fp32, i, weight);
    }
#pragma unroll
    for (int s = 0; s < count; ++s) {
      load(states[s], Element::fp32, i, state[s]);
    }
#pragma unroll
    for (int j = 0; j < width; ++j) {
      Lane own[count > 1 ? count : 1];
#pragma unroll
      for (int s = 0; s < count; ++s) {
        own[s] = state[s][j];
      }
      formula(gradient[j], weight[j], own);
#pragma unroll
      for (int s = 0; s < count; ++s) {
        state[s][j] = own[s];
      }
    }
    store(weight, target, Element::fp32, i);
#pragma unroll
    for (int s = 0; s < count; ++s) {
      store(state[s], states[s], Element::fp32, i);
    }
    if (copy != nullptr) {
      store(weight, copy, copy_type, i);
    }
  }
};

} // namespace

template <class Formula>
const char* update(
    const Stretch& stretch,
    const Formula& formula,
    float* target,
    void* stream) {
  const UpdateElements<Formula> work{
      formula,
      stretch.weights,
      target != nullptr ? target : stretch.weights,
      stretch.gradients,
      stretch.gradient_type,
      target != nullptr ? nullptr : stretch.copy,
      stretch.copy_type,
      {stretch.states[0], stretch.states[1]},
      stretch.gradient_factor};
  bool fours = aligned(work.gradients, work.gradient_type) &&
      aligned(work.weights, Element::fp32) &&
      aligned(work.target, Element::fp32) && aligned(work.copy, work.copy_type);
  for (int s = 0; s < Formula::states; ++s) {
    fours = fours && aligned(work.states[s], Element::fp32);
  }
  return for_each(stretch.count, fours, work, stream);
}

template const char* update(const Stretch&, const Adagrad&, float*, void*);
template const char* update(const Stretch&, const Adam<false>&, float*, void*);
template const char* update(const Stretch&, const Adam<true>&, float*, void*);
template const char* update(const Stretch&, const Descent&, float*, void*);
template const char* update(
    const Stretch&,
    const LambDirection&,
    float*,
    void*);
template const char* update(const Stretch&, const Lion&, float*, void*);
template const char* update(const Stretch&, const MuonMomentum&, float*, void*);
template const char* update(const Stretch&, const Sgd&, float*, void*);

} // namespace cairn::kernels::cuda
