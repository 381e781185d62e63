#pragma once

#include "kernels/device.h"

namespace cairn::kernels {

// What holds for every formula in this folder. It is written once, over a
// vector type V of any width, on the CPU or on the GPU. Its members are the
// constants of one step. Only correctly rounded operations are used (fma,
// product, quotient, root), in an order that is written down, so that all
// instruction sets and the GPU give the same bits.

/// Adam, and AdamW (decoupled). What differs is where weight decay enters: it
/// shrinks the weight, or else is added to the gradient. As few operations as
/// there can be: a core computes this slower than its memory could feed it.
template <bool decoupled>
struct Adam {
  static constexpr int states = 2;
  static constexpr bool reads_weights = true;

  float gradient_factor = 1;
  float one_minus_beta1 = 0;
  float one_minus_beta2 = 0;
  float root_factor = 1; ///< corrects the root for its start at zero
  float eps = 0;
  float decay = 0;     ///< weight decay; decoupled: times lr
  float step_size = 0; ///< lr, corrected

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
