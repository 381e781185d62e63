#pragma once

#include "kernels/device.h"

namespace cairn::kernels {

// Rules for every formula in this folder. A formula is written once, over a
// vector type V of any width, on the CPU or on the GPU. Its members are the
// constants of one step. It uses only correctly rounded operations (fma,
// product, quotient, root) in a fixed order, so that all instruction sets and
// the GPU give the same bits.

/// Adam, and AdamW (decoupled). They differ in where weight decay enters: AdamW
/// shrinks the weight, Adam adds the decay to the gradient. Has as few
/// operations as possible, because a core computes this more slowly than its
/// memory could feed it.
template <bool decoupled>
struct Adam {
  static constexpr int states = 2;
  static constexpr bool reads_weights = true;

  float gradient_factor = 1;
  float one_minus_beta1 = 0;
  float one_minus_beta2 = 0;
  float root_factor = 1; ///< corrects the root for its start at zero
  float eps = 0;
  float decay = 0;     ///< weight decay; times lr if decoupled
  float step_size = 0; ///< lr with bias correction

  template <class V>
  CAIRN_DEVICE void operator()(V gradient, V& weight, V (&state)[2]) const {
    V& average = state[0];
    V& average_square = state[1];
    V g = gradient * V(gradient_factor);
    if constexpr (!decoupled) {
      g = fma(V(decay), weight, g);
    }
    average = fma(V(one_minus_beta1), g + -average, average);
    average_square =
        fma(V(-one_minus_beta2), fma(-g, g, average_square), average_square);
    const V root = fma(sqrt(average_square), V(root_factor), V(eps));
    if constexpr (decoupled) {
      weight = fma(V(-decay), weight, weight);
    }
    weight = fma(V(-step_size), average / root, weight);
  }
};

} // namespace cairn::kernels
