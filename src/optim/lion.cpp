#include "optim/lion.h"

#include <array>

#include "optim/run_formula.h"

namespace cairn::optim {

std::span<const std::string_view> Lion::state_names() const {
  static constexpr std::array<std::string_view, 1> names{"exp_avg"};
  return names;
}

void Lion::update(
    const Stretch& stretch,
    const GroupValues& values,
    const StepValues& step,
    Place place,
    float*) const {
  const auto [beta1, beta2] = values.betas;
  const kernels::Lion formula{
      .gradient_factor = rounded(step.gradient_factor),
      .beta1 = rounded(beta1),
      .one_minus_beta1 = rounded(1 - beta1),
      .beta2 = rounded(beta2),
      .one_minus_beta2 = rounded(1 - beta2),
      .decay = rounded(values.lr * values.weight_decay),
      .step_size = rounded(values.lr)};
  run_formula(stretch, formula, place);
}

} // namespace cairn::optim
