#pragma once

#include <cairn/base/error.h>
#include <cairn/optim/rule.h>

#include <cstring>

#include "kernels/internal/cpu/cpu.h"
#include "kernels/internal/cuda/cuda.h"
#include "optim/internal/formula_constants.h"

namespace cairn::optim {

/// Applies a kernel's formula on the device of the stretch; see
/// kernels/internal/cpu/cpu.h.
template <class Formula>
void run_formula(
    const Stretch& stretch,
    const Formula& formula,
    Place place,
    float* target = nullptr) {
  if (place.constants != nullptr) {
    static_assert(sizeof(Formula) <= sizeof place.constants->numbers);
    std::memcpy(place.constants->numbers.data(), &formula, sizeof formula);
    place.constants->count = sizeof formula / sizeof(float);
    place.constants->update_many = &kernels::cuda::update_many<Formula>;
    return;
  }
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
