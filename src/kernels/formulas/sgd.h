#pragma once

#include "kernels/device.h"

namespace cairn::kernels {

/// Gradient descent with momentum, Nesterov's or plain.
struct Sgd {
  static constexpr int states = 1;
  static constexpr bool reads_weights = true;

  float gradient_factor = 1;
  float l2 = 0;
  float kept = 0;  ///< factor of the momentum; 0 in the first step
  float taken = 1; ///< factor of the gradient; 1 - dampening after it
  // The direction is momentum_part * momentum + gradient_part * gradient.
  float momentum_part = 1;
  float gradient_part = 0;
  float step_size = 0;

  template <class V>
  CAIRN_DEVICE void operator()(V gradient, V& weight, V (&state)[1]) const {
    V& momentum = state[0];
    const V g = fma(V(l2), weight, gradient * V(gradient_factor));
    momentum = fma(V(kept), momentum, V(taken) * g);
    const V direction = fma(V(momentum_part), momentum, V(gradient_part) * g);
    weight = fma(V(-step_size), direction, weight);
  }
};

} // namespace cairn::kernels
