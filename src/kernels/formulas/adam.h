#pragma once

#include "kernels/device.h"

namespace cairn::kernels {

// What holds for every formula in this folder. It is written once, over a
// vector type V of any width, on the CPU or on the GPU. Its members are the
// constants of one step. Only correctly rounded operations are used (fma,
// product, quotient, root), in an order that is written down, so that all
// instruction sets and the GPU give the same bits.

/// Adam, and AdamW. What differs is where weight decay enters: `l2` is added
/// to the gradient, `decay` shrinks the weight.
struct Adam {
  static constexpr int states = 2;
  static constexpr bool reads_weights = true;

  float gradient_factor = 1;
  float l2 = 0;
  float beta1 = 0;
  float one_minus_beta1 = 0;
  float beta2 = 0;
  float one_minus_beta2 = 0;
  float root_factor = 1; ///< corrects the root for its start at zero
  float eps = 0;
  float decay = 0;     ///< lr * weight decay
  float step_size = 0; ///< lr, corrected

  template <class V>
  CAIRN_DEVICE void operator()(V gradient, V& weight, V (&state)[2]) const {
    V& average = state[0];
    V& average_square = state[1];
    const V g = fma(V(l2), weight, gradient * V(gradient_factor));
    average = fma(V(beta1), average, V(one_minus_beta1) * g);
    average_square = fma(V(beta2), average_square, V(one_minus_beta2) * g * g);
    const V root = fma(sqrt(average_square), V(root_factor), V(eps));
    weight = fma(V(-decay), weight, weight);
    weight = fma(V(-step_size), average / root, weight);
  }
};

} // namespace cairn::kernels
