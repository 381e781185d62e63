#pragma once

#include "kernels/cuda/lane.cuh"
#include "kernels/formulas.h"
#include "kernels/narrow_states.h"

namespace cairn::kernels::cuda {

/// Weights whose halves are apart.
template <int width>
__device__ void load_joined(
    const void* copy,
    const std::uint16_t* remainders,
    std::int64_t i,
    Lane (&weight)[width]) {
  using Bits = typename Pack<width>::Bits;
  const Bits upper = *reinterpret_cast<const Bits*>(
      static_cast<const std::uint16_t*>(copy) + i);
  const Bits lower = *reinterpret_cast<const Bits*>(remainders + i);
#pragma unroll
  for (int j = 0; j < width; ++j) {
    weight[j].value = __uint_as_float(joined(
        reinterpret_cast<const std::uint16_t*>(&upper)[j],
        reinterpret_cast<const std::uint16_t*>(&lower)[j]));
  }
}

template <int width>
__device__ void store_apart(
    const Lane (&weight)[width],
    void* copy,
    std::uint16_t* remainders,
    std::int64_t i) {
  using Bits = typename Pack<width>::Bits;
  Bits upper;
  Bits lower;
#pragma unroll
  for (int j = 0; j < width; ++j) {
    const std::uint32_t bits = quiet(__float_as_uint(weight[j].value));
    reinterpret_cast<std::uint16_t*>(&upper)[j] = upper_half(bits);
    reinterpret_cast<std::uint16_t*>(&lower)[j] = remainder(bits);
  }
  *reinterpret_cast<Bits*>(static_cast<std::uint16_t*>(copy) + i) = upper;
  *reinterpret_cast<Bits*>(remainders + i) = lower;
}

template <int width>
__device__ void store_by_chance(
    const Lane (&state)[width],
    std::uint16_t* to,
    std::uint32_t key,
    std::int64_t i) {
  using Bits = typename Pack<width>::Bits;
  Bits rounded;
#pragma unroll
  for (int j = 0; j < width; ++j) {
    reinterpret_cast<std::uint16_t*>(&rounded)[j] =
        rounded_by_chance(__float_as_uint(state[j].value), key);
  }
  *reinterpret_cast<Bits*>(to + i) = rounded;
}

/// `has_narrow`: some of the states, or the weights, have 16 bits.
template <class Formula, bool has_narrow>
struct UpdateElements {
  Formula formula;
  const float* weights;
  float* target;
  const void* gradients;
  Element gradient_type;
  void* copy;
  Element copy_type;
  float* states[2];
  NarrowStates narrow;
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
    if (has_narrow && narrow.remainders != nullptr) {
      load_joined(copy, narrow.remainders, i, weight);
    } else if constexpr (Formula::reads_weights) {
      load(weights, Element::fp32, i, weight);
    }
#pragma unroll
    for (int s = 0; s < count; ++s) {
      if (has_narrow && narrow.states[s] != nullptr) {
        load(narrow.states[s], Element::bf16, i, state[s]);
      } else {
        load(states[s], Element::fp32, i, state[s]);
      }
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
#pragma unroll
    for (int s = 0; s < count; ++s) {
      if (has_narrow && narrow.states[s] != nullptr) {
        const std::uint32_t key = key_of_state(narrow.key, s);
        store_by_chance(state[s], narrow.states[s], key, i);
      } else {
        store(state[s], states[s], Element::fp32, i);
      }
    }
    if (has_narrow && narrow.remainders != nullptr) {
      store_apart(weight, copy, narrow.remainders, i);
      return;
    }
    store(weight, target, Element::fp32, i);
    if (copy != nullptr) {
      store(weight, copy, copy_type, i);
    }
  }
};

/// The elements of a stretch. `target` gets the weights instead of the stretch
/// if it is not null.
template <bool has_narrow, class Formula>
__host__ __device__ UpdateElements<Formula, has_narrow> elements_of(
    const Stretch& stretch,
    const Formula& formula,
    float* target) {
  return {
      formula,
      stretch.weights,
      target != nullptr ? target : stretch.weights,
      stretch.gradients,
      stretch.gradient_type,
      target != nullptr ? nullptr : stretch.copy,
      stretch.copy_type,
      {stretch.states[0], stretch.states[1]},
      stretch.narrow,
      stretch.gradient_factor};
}

/// True when four elements of the stretch can be read and written at a time.
inline bool takes_fours(const Stretch& stretch) {
  bool fours = aligned(stretch.gradients, stretch.gradient_type) &&
      aligned(stretch.weights, Element::fp32) &&
      aligned(stretch.copy, stretch.copy_type) &&
      aligned(stretch.narrow.remainders, Element::bf16);
  for (std::size_t s = 0; s < stretch.states.size(); ++s) {
    fours = fours && aligned(stretch.states[s], Element::fp32) &&
        aligned(stretch.narrow.states[s], Element::bf16);
  }
  return fours;
}

} // namespace cairn::kernels::cuda
