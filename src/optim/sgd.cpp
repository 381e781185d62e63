#include "optim/sgd.h"

#include <array>

#include "optim/run_formula.h"

namespace cairn::optim {

std::span<const std::string_view> Sgd::state_names() const {
  static constexpr std::array<std::string_view, 1> names{"momentum_buffer"};
  return std::span(names).first(options_.momentum ? 1 : 0);
}

void Sgd::update(
    const Stretch& stretch,
    const GroupValues& values,
    const StepValues& step,
    Place place,
    float*) const {
  const float factor = rounded(step.gradient_factor);
  const float l2 = rounded(values.weight_decay);
  const float step_size = rounded(values.lr);
  if (!options_.momentum) {
    const kernels::Descent formula{
        .gradient_factor = factor,
        .l2 = l2,
        .step_size = step_size};
    run_formula(stretch, formula, place);
    return;
  }
  // The momentum starts as the first gradient, without dampening.
  const bool first = step.step == 1;
  const bool nesterov = options_.nesterov;
  const kernels::Sgd formula{
      .gradient_factor = factor,
      .l2 = l2,
      .kept = rounded(first ? 0 : values.momentum),
      .taken = rounded(first ? 1 : 1 - options_.dampening),
      .momentum_part = rounded(nesterov ? values.momentum : 1),
      .gradient_part = rounded(nesterov ? 1 : 0),
      .step_size = step_size};
  run_formula(stretch, formula, place);
}

} // namespace cairn::optim
