#include "optim/adagrad.h"

#include <array>

#include "optim/run_formula.h"

namespace cairn::optim {

std::span<const std::string_view> Adagrad::state_names() const {
  static constexpr std::array<std::string_view, 1> names{"sum"};
  return names;
}

void Adagrad::update(
    const Stretch& stretch,
    const GroupValues& values,
    const StepValues& step,
    Place place,
    float*) const {
  const double slowed =
      1 + static_cast<double>(step.step - 1) * options_.lr_decay;
  const kernels::Adagrad formula{
      .gradient_factor = rounded(step.gradient_factor),
      .l2 = rounded(values.weight_decay),
      .eps = rounded(values.eps),
      .step_size = rounded(values.lr / slowed)};
  run_formula(stretch, formula, place);
}

} // namespace cairn::optim
