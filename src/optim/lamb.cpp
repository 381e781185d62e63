#include <cairn/optim/lamb.h>

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

void Lamb::direction(
    const Stretch& stretch,
    const GroupValues& values,
    const StepValues& step,
    Place place,
    float* out) const {
  const auto [beta1, beta2] = values.betas;
  const kernels::LambDirection formula{
      .gradient_factor = rounded(step.gradient_factor),
      .beta1 = rounded(beta1),
      .one_minus_beta1 = rounded(1 - beta1),
      .beta2 = rounded(beta2),
      .one_minus_beta2 = rounded(1 - beta2),
      .eps = rounded(values.eps),
      .weight_decay = rounded(values.weight_decay)};
  run_formula(stretch, formula, place, out);
}

double Lamb::trust_ratio(double weight_squares, double direction_squares)
    const {
  if (weight_squares == 0 || direction_squares == 0) {
    return 1;
  }
  return std::clamp(
      std::sqrt(weight_squares) / std::sqrt(direction_squares),
      options_.min_coefficient,
      options_.max_coefficient);
}

void Lamb::apply(
    const Stretch& stretch,
    const float* direction,
    double trust_ratio,
    const GroupValues& values,
    const StepValues& step,
    Place place) const {
  double correction = 1;
  if (options_.bias_correction) {
    const auto power = static_cast<double>(step.step);
    correction = std::sqrt(1 - std::pow(values.betas[1], power)) /
        (1 - std::pow(values.betas[0], power));
  }
  Stretch along = stretch;
  along.gradients = direction;
  along.gradient_type = Element::fp32;
  const kernels::Descent formula{
      .step_size = rounded(values.lr * correction * trust_ratio)};
  run_formula(along, formula, place);
}

} // namespace cairn::optim
