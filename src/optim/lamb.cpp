#include "optim/lamb.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "optim/run_formula.h"

namespace cairn::optim {

std::span<const std::string_view> Lamb::state_names() const {
  static constexpr std::array<std::string_view, 2> names{
      "exp_avg",
      "exp_avg_sq"};
  return names;
}

void Lamb::update(
    const Stretch& stretch,
    const GroupValues& values,
    const StepValues& step,
    Place place,
    float* direction) const {
  const auto [beta1, beta2] = values.betas;
  const kernels::LambDirection formula{
      .gradient_factor = rounded(step.gradient_factor),
      .beta1 = rounded(beta1),
      .one_minus_beta1 = rounded(1 - beta1),
      .beta2 = rounded(beta2),
      .one_minus_beta2 = rounded(1 - beta2),
      .eps = rounded(values.eps),
      .weight_decay = rounded(values.weight_decay)};
  run_formula(stretch, formula, place, direction);
}

double Lamb::trust_ratio(const WholeParameter& whole) const {
  if (whole.weight_squares == 0 || whole.direction_squares == 0) {
    return 1;
  }
  return std::clamp(
      std::sqrt(whole.weight_squares) / std::sqrt(whole.direction_squares),
      options_.min_coefficient,
      options_.max_coefficient);
}

Descent Lamb::descent(
    const WholeParameter& whole,
    const GroupValues& values,
    const StepValues& step) const {
  double correction = 1;
  if (options_.bias_correction) {
    const auto power = static_cast<double>(step.step);
    correction = std::sqrt(1 - std::pow(values.betas[1], power)) /
        (1 - std::pow(values.betas[0], power));
  }
  return {.step_size = values.lr * correction * trust_ratio(whole)};
}

} // namespace cairn::optim
