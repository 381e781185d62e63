#include <cairn/optim/rule.h>

#include "optim/run_formula.h"

namespace cairn::optim {

Rule::~Rule() = default;

FormulaConstants Rule::constants(
    const GroupValues& values,
    const StepValues& step) const {
  FormulaConstants result;
  update({}, values, step, {.constants = &result});
  return result;
}

Descent Rule::descent(
    const WholeParameter&,
    const GroupValues& values,
    const StepValues&) const {
  return {.step_size = values.lr};
}

void Rule::apply(
    const Stretch& stretch,
    const float* direction,
    const WholeParameter& whole,
    const GroupValues& values,
    const StepValues& step,
    Place place) const {
  const Descent how = descent(whole, values, step);
  Stretch along = stretch;
  along.gradients = direction;
  along.gradient_type = Element::fp32;
  along.gradient_factor = nullptr; // directions have it in them
  const kernels::Descent formula{
      .decay = rounded(how.decay),
      .step_size = rounded(how.step_size)};
  run_formula(along, formula, place);
}

} // namespace cairn::optim
