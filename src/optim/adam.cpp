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
    Place place,
    float*) const {
  const double beta1 = values.betas[0];
  const double beta2 = values.betas[1];
  double first = 1;
  double second = 1;
  if (options_.bias_correction) {
    const auto power = static_cast<double>(step.step);
    first = 1 - std::pow(beta1, power);
    second = 1 - std::pow(beta2, power);
  }
  const auto run = [&]<bool decoupled>(kernels::Adam<decoupled> formula) {
    formula.gradient_factor = rounded(step.gradient_factor);
    formula.one_minus_beta1 = rounded(1 - beta1);
    formula.one_minus_beta2 = rounded(1 - beta2);
    formula.root_factor = rounded(1 / std::sqrt(second));
    formula.eps = rounded(values.eps);
    formula.decay = rounded(values.weight_decay * (decoupled ? values.lr : 1));
    formula.step_size = rounded(values.lr / first);
    run_formula(stretch, formula, place);
  };
  if (options_.decoupled) {
    run(kernels::Adam<true>{});
  } else {
    run(kernels::Adam<false>{});
  }
}

} // namespace cairn::optim
