#pragma once

#include "kernels/device.h"

namespace cairn::kernels {

/// A step along a given direction: SGD without momentum, and the last part of
/// LAMB and Muon.
struct Descent {
  static constexpr int states = 0;
  static constexpr bool reads_weights = true;

  float gradient_factor = 1;
  float l2 = 0;
  float decay = 0;
  float step_size = 0;

  template <class V>
  CAIRN_DEVICE void operator()(V gradient, V& weight, V (&)[1]) const {
    const V g = fma(V(l2), weight, gradient * V(gradient_factor));
    weight = fma(V(-decay), weight, weight);
    weight = fma(V(-step_size), g, weight);
  }
};

} // namespace cairn::kernels
