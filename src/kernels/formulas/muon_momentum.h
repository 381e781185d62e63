#pragma once

#include "kernels/device.h"

namespace cairn::kernels {

/// The first part of Muon: updates the momentum, and puts the matrix to be made
/// orthogonal in place of the weight.
struct MuonMomentum {
  static constexpr int states = 1;
  static constexpr bool reads_weights = false;

  float gradient_factor = 1;
  float beta = 0;
  float one_minus_beta = 0;
  // The result is momentum_part * momentum + gradient_part * gradient.
  float momentum_part = 1;
  float gradient_part = 0;

  template <class V>
  CAIRN_DEVICE void operator()(V gradient, V& weight, V (&state)[1]) const {
    V& momentum = state[0];
    const V g = gradient * V(gradient_factor);
    momentum = fma(V(beta), momentum, V(one_minus_beta) * g);
    weight = fma(V(momentum_part), momentum, V(gradient_part) * g);
  }
};

} // namespace cairn::kernels
