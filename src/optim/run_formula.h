#pragma once

#include <cairn/base/error.h>
#include <cairn/optim/rule.h>

#include "kernels/internal/cpu/cpu.h"
#include "kernels/internal/cuda/cuda.h"

namespace cairn::optim {

/// Applies a kernel's formula on the device of the stretch; see
/// kernels/internal/cpu/cpu.h.
template <class Formula>
void run_formula(
    const Stretch& stretch,
    const Formula& formula,
    Place place,
    float* target = nullptr) {
  if (!place.cuda) {
    kernels::cpu::update(stretch, formula, target);
    return;
  }
  if (const char* failure =
          kernels::cuda::update(stretch, formula, target, place.stream)) {
    throw InternalError({.what = failure, .where = "optimizer kernel"});
  }
}

/// A constant of a formula: computed in fp64, rounded once.
inline float rounded(double value) {
  return static_cast<float>(value);
}

} // namespace cairn::optim
