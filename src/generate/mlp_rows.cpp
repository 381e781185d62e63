#include "generate/mlp_rows.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <variant>

namespace cairn::generate {
namespace {

/// Turns two scores into their softmax.
void softmax_of_two(float* scores) {
  const double first =
      1 / (1 + std::exp(static_cast<double>(scores[1] - scores[0])));
  scores[0] = static_cast<float>(first);
  scores[1] = static_cast<float>(1 - first);
}

} // namespace

void MlpRows::compute(
    const BlockMlp& mlp,
    const float* x,
    std::int64_t rows,
    float* y,
    bool adds) {
  if (const auto* one = std::get_if<MlpWeights>(&mlp)) {
    compute_mlp(*one, x, rows, y, adds);
  } else {
    compute_mixture(std::get<MixtureWeights>(mlp), x, rows, y, adds);
  }
}

void MlpRows::compute_mlp(
    const MlpWeights& mlp,
    const float* x,
    std::int64_t rows,
    float* y,
    bool adds) {
  const auto count = static_cast<std::size_t>(rows);
  make_rows(up_, count, mlp.up.outputs);
  if (mlp.gate) {
    make_rows(gate_, count, mlp.gate->outputs);
  }
  operations_->activate_mlp(mlp, x, rows, up_.data(), gate_.data());
  operations_
      ->multiply(mlp.down, (mlp.gate ? gate_ : up_).data(), rows, y, adds);
}

void MlpRows::compute_mixture(
    const MixtureWeights& mixture,
    const float* x,
    std::int64_t rows,
    float* y,
    bool adds) {
  const std::int64_t experts = mixture.router.outputs;
  const auto count = static_cast<std::size_t>(rows);
  make_rows(scores_, count, experts);
  operations_->multiply(mixture.router, x, rows, scores_.data(), false);
  const ExpertChoices choices = choose_experts(
      std::span(scores_).first(count * static_cast<std::size_t>(experts)),
      experts,
      mixture.top_k);
  ask_experts(mixture, choices, x);
  if (mixture.residual) {
    make_rows(beside_, count, mixture.router.matrix.inputs);
    make_rows(parts_, count, 2);
    compute_mlp(mixture.residual->mlp, x, rows, beside_.data(), false);
    operations_->multiply(
        mixture.residual->coefficient,
        x,
        rows,
        parts_.data(),
        false);
  }
  mix(mixture, choices, rows, y, adds);
}

/// Computes every choice's answer. The rows of an expert follow each other.
void MlpRows::ask_experts(
    const MixtureWeights& mixture,
    const ExpertChoices& choices,
    const float* x) {
  const std::int64_t hidden = mixture.router.matrix.inputs;
  make_rows(given_, choices.rows.size(), hidden);
  make_rows(answers_, choices.rows.size(), hidden);
  float* given = given_.data();
  for (const std::int64_t row : choices.rows) {
    given = std::copy_n(x + row * hidden, hidden, given);
  }
  for (std::size_t i = 0; i < mixture.experts.size(); ++i) {
    const std::int64_t begin = choices.begins[i];
    const std::int64_t own = choices.begins[i + 1] - begin;
    if (own > 0) {
      compute_mlp(
          mixture.experts[i],
          given_.data() + begin * hidden,
          own,
          answers_.data() + begin * hidden,
          false);
    }
  }
}

/// Adds up the answers for each row, in the order of its choices.
void MlpRows::mix(
    const MixtureWeights& mixture,
    const ExpertChoices& choices,
    std::int64_t rows,
    float* y,
    bool adds) {
  const std::int64_t hidden = mixture.router.matrix.inputs;
  std::vector<float> mixed(static_cast<std::size_t>(hidden));
  for (std::int64_t row = 0; row < rows; ++row) {
    std::ranges::fill(mixed, 0.F);
    const std::int64_t first = row * mixture.top_k;
    for (std::int64_t i = first; i < first + mixture.top_k; ++i) {
      const auto choice = static_cast<std::size_t>(i);
      const float weight = choices.weights[choice];
      const float* answer = answers_.data() + choices.slots[choice] * hidden;
      for (std::size_t j = 0; j < mixed.size(); ++j) {
        mixed[j] += weight * answer[j];
      }
    }
    if (mixture.residual) {
      float* parts = parts_.data() + 2 * row;
      softmax_of_two(parts);
      const float* beside = beside_.data() + row * hidden;
      for (std::size_t j = 0; j < mixed.size(); ++j) {
        mixed[j] = mixed[j] * parts[0] + beside[j] * parts[1];
      }
    }
    float* result = y + row * hidden;
    for (std::size_t j = 0; j < mixed.size(); ++j) {
      result[j] = adds ? result[j] + mixed[j] : mixed[j];
    }
  }
}

} // namespace cairn::generate
