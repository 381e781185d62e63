#include "optim/muon.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "optim/adam.h"
#include "optim/run_formula.h"

namespace cairn::optim {

namespace {

bool is_hidden_matrix(
    std::string_view name,
    std::span<const std::int64_t> shape) {
  // Names of embeddings and output layers in GPT-2, Megatron, Llama and BERT.
  static constexpr std::array<std::string_view, 6>
      outer{"embed", "wte", "wpe", "lm_head", "output_layer", "classifier"};
  return shape.size() >= 2 &&
      std::none_of(outer.begin(), outer.end(), [&](std::string_view part) {
           return name.find(part) != std::string_view::npos;
         });
}

} // namespace

Muon::Muon(MuonOptions options)
    : options_(options), rest_(std::make_unique<Adam>(AdamOptions{})) {}

std::span<const std::string_view> Muon::state_names() const {
  // The second state is only for the parameters that Muon leaves to Adam. Their
  // first average is kept where matrices keep their momentum.
  static constexpr std::array<std::string_view, 2> names{
      "momentum_buffer",
      "exp_avg_sq"};
  return names;
}

std::size_t Muon::states_of(
    std::string_view name,
    std::span<const std::int64_t> shape) const {
  return is_hidden_matrix(name, shape) ? 1 : state_names().size();
}

const Rule& Muon::rule_for(
    std::string_view name,
    std::span<const std::int64_t> shape) const {
  return is_hidden_matrix(name, shape) ? static_cast<const Rule&>(*this)
                                       : *rest_;
}

void Muon::update(
    const Stretch& stretch,
    const GroupValues& values,
    const StepValues& step,
    Place place,
    float* direction) const {
  const double beta = values.momentum;
  const bool nesterov = options_.nesterov;
  const kernels::MuonMomentum formula{
      .gradient_factor = rounded(step.gradient_factor),
      .beta = rounded(beta),
      .one_minus_beta = rounded(1 - beta),
      .momentum_part = rounded(nesterov ? beta : 1),
      .gradient_part = rounded(nesterov ? 1 - beta : 0)};
  run_formula(stretch, formula, place, direction);
}

Descent Muon::descent(
    const WholeParameter& whole,
    const GroupValues& values,
    const StepValues&) const {
  const double tall =
      static_cast<double>(whole.rows) / static_cast<double>(whole.columns);
  return {
      .decay = values.lr * values.weight_decay,
      .step_size = values.lr * std::sqrt(std::max(1.0, tall))};
}

} // namespace cairn::optim
