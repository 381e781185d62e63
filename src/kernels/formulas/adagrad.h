#pragma once

#include "kernels/device.h"

namespace cairn::kernels {

struct Adagrad {
  static constexpr int states = 1;
  static constexpr bool reads_weights = true;

  float gradient_factor = 1;
  float l2 = 0;
  float eps = 0;
  float step_size = 0;

  template <class V>
  CAIRN_DEVICE void operator()(V gradient, V& weight, V (&state)[1]) const {
    V& sum = state[0];
    const V g = fma(V(l2), weight, gradient * V(gradient_factor));
    sum = fma(g, g, sum);
    weight = fma(V(-step_size), g / (sqrt(sum) + V(eps)), weight);
  }
};

} // namespace cairn::kernels
