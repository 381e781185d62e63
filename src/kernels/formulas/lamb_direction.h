#pragma once

#include "kernels/device.h"

namespace cairn::kernels {

/// The first half of LAMB: updates the averages and puts the direction in place
/// of the weight. The step size corrects for the averages' start at zero.
struct LambDirection {
  static constexpr int states = 2;
  static constexpr bool reads_weights = true;

  float gradient_factor = 1;
  float beta1 = 0;
  float one_minus_beta1 = 0;
  float beta2 = 0;
  float one_minus_beta2 = 0;
  float eps = 0;
  float weight_decay = 0;

  template <class V>
  CAIRN_DEVICE void operator()(V gradient, V& weight, V (&state)[2]) const {
    V& average = state[0];
    V& average_square = state[1];
    const V g = gradient * V(gradient_factor);
    average = fma(V(beta1), average, V(one_minus_beta1) * g);
    average_square = fma(V(beta2), average_square, V(one_minus_beta2) * g * g);
    const V step = average / (sqrt(average_square) + V(eps));
    weight = fma(V(weight_decay), weight, step);
  }
};

} // namespace cairn::kernels
