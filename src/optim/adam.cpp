#include "optim/adam.h"

#include <array>
#include <cmath>

#include "optim/run_formula.h"

namespace cairn::optim {

std::span<const std::string_view> Adam::state_names() const {
  static constexpr std::array<std::string_view, 2> names{
      "exp_avg",
      "exp_avg_sq"};
  return names;
}

void Adam::update(
    const Stretch& stretch,
    const GroupValues& values,
    const StepValues& step,
    Place place) const {
  const auto [beta1, beta2] = values.betas;
  double first = 1;
  double second = 1;
  if (options_.bias_correction) {
    const auto power = static_cast<double>(step.step);
    first = 1 - std::pow(beta1, power);
    second = 1 - std::pow(beta2, power);
  }
  const bool decoupled = options_.decoupled;
  const kernels::Adam formula{
      .gradient_factor = rounded(step.gradient_factor),
      .l2 = rounded(decoupled ? 0 : values.weight_decay),
      .beta1 = rounded(beta1),
      .one_minus_beta1 = rounded(1 - beta1),
      .beta2 = rounded(beta2),
      .one_minus_beta2 = rounded(1 - beta2),
      .root_factor = rounded(1 / std::sqrt(second)),
      .eps = rounded(values.eps),
      .decay = rounded(decoupled ? values.lr * values.weight_decay : 0),
      .step_size = rounded(values.lr / first)};
  run_formula(stretch, formula, place);
}

} // namespace cairn::optim
