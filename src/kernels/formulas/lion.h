#pragma once

#include "kernels/device.h"

namespace cairn::kernels {

/// Lion: steps by the sign of an average. The sign of zero is zero, so weights
/// without a gradient (padding, unused rows of an embedding) do not change.
struct Lion {
  static constexpr int states = 1;
  static constexpr bool reads_weights = true;

  float gradient_factor = 1;
  float beta1 = 0;
  float one_minus_beta1 = 0;
  float beta2 = 0;
  float one_minus_beta2 = 0;
  float decay = 0;
  float step_size = 0;

  template <class V>
  CAIRN_DEVICE void operator()(V gradient, V& weight, V (&state)[1]) const {
    V& average = state[0];
    const V g = gradient * V(gradient_factor);
    const V mixed = fma(V(beta1), average, V(one_minus_beta1) * g);
    average = fma(V(beta2), average, V(one_minus_beta2) * g);
    weight = fma(V(-decay), weight, weight);
    weight = weight + with_sign_of(mixed, V(-step_size));
  }
};

} // namespace cairn::kernels
