#include <cairn/optim/muon.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "optim/adam.h"
#include "optim/run_formula.h"

namespace cairn::optim {

Muon::Muon(MuonOptions options)
    : options_(options), rest_(std::make_unique<Adam>(AdamOptions{})) {}

Muon::~Muon() = default;

std::span<const std::string_view> Muon::state_names() const {
  // The second is Adam's alone, of the parameters that Muon leaves to it; Adam
  // keeps its first average where matrices keep their momentum.
  static constexpr std::array<std::string_view, 2> names{
      "momentum_buffer",
      "exp_avg_sq"};
  return names;
}

std::size_t Muon::states_of(
    std::string_view name,
    std::span<const std::int64_t> shape) const {
  return takes(name, shape) ? 1 : state_names().size();
}

bool Muon::takes(std::string_view name, std::span<const std::int64_t> shape) {
  // Names of embeddings and output layers in GPT-2, Megatron, Llama and BERT.
  static constexpr std::array<std::string_view, 6>
      outer{"embed", "wte", "wpe", "lm_head", "output_layer", "classifier"};
  return shape.size() >= 2 &&
      std::none_of(outer.begin(), outer.end(), [&](std::string_view part) {
           return name.find(part) != std::string_view::npos;
         });
}

void Muon::momentum(
    const Stretch& stretch,
    const GroupValues& values,
    const StepValues& step,
    Place place,
    float* out) const {
  const double beta = values.momentum;
  const bool nesterov = options_.nesterov;
  const kernels::MuonMomentum formula{
      .gradient_factor = rounded(step.gradient_factor),
      .beta = rounded(beta),
      .one_minus_beta = rounded(1 - beta),
      .momentum_part = rounded(nesterov ? beta : 1),
      .gradient_part = rounded(nesterov ? 1 - beta : 0)};
  run_formula(stretch, formula, place, out);
}

void Muon::apply(
    const Stretch& stretch,
    const float* direction,
    std::int64_t rows,
    std::int64_t columns,
    const GroupValues& values,
    Place place) const {
  const double tall = static_cast<double>(rows) / static_cast<double>(columns);
  Stretch along = stretch;
  along.gradients = direction;
  along.gradient_type = Element::fp32;
  const kernels::Descent formula{
      .decay = rounded(values.lr * values.weight_decay),
      .step_size = rounded(values.lr * std::sqrt(std::max(1.0, tall)))};
  run_formula(along, formula, place);
}

} // namespace cairn::optim
