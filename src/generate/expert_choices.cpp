#include "generate/expert_choices.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace cairn::generate {
namespace {

/// The place of the largest score among those that are not taken. A score that
/// is not a number is taken when nothing else is left.
std::size_t best_of(
    std::span<const float> scores,
    const std::vector<bool>& taken) {
  std::size_t best = scores.size();
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (!taken[i] &&
        (best == scores.size() || scores[i] > scores[best] ||
         std::isnan(scores[best]))) {
      best = i;
    }
  }
  return best;
}

/// Appends the row's experts to `chosen`, and their weights.
void choose_for_row(
    std::span<const float> scores,
    std::int64_t top_k,
    std::vector<std::size_t>& chosen,
    std::vector<float>& weights) {
  std::vector<bool> taken(scores.size());
  const std::size_t first = chosen.size();
  for (std::int64_t i = 0; i < top_k; ++i) {
    const std::size_t best = best_of(scores, taken);
    taken[best] = true;
    chosen.push_back(best);
  }
  const auto largest = static_cast<double>(scores[chosen[first]]);
  double sum = 0; // of all exponentials
  for (const float score : scores) {
    sum += std::exp(static_cast<double>(score) - largest);
  }
  double of_chosen = 0;
  for (std::size_t i = first; i < chosen.size(); ++i) {
    const double gate =
        std::exp(static_cast<double>(scores[chosen[i]]) - largest) / sum;
    weights.push_back(static_cast<float>(gate));
    of_chosen += gate;
  }
  if (top_k == 1) {
    return;
  }
  const auto divisor = static_cast<float>(std::max(
      of_chosen,
      static_cast<double>(std::numeric_limits<float>::epsilon())));
  for (std::size_t i = first; i < chosen.size(); ++i) {
    weights[i] /= divisor;
  }
}

} // namespace

ExpertChoices choose_experts(
    std::span<const float> scores,
    std::int64_t experts,
    std::int64_t top_k) {
  const auto width = static_cast<std::size_t>(experts);
  ExpertChoices choices;
  std::vector<std::size_t> chosen; // [rows, top_k]
  for (std::size_t at = 0; at < scores.size(); at += width) {
    choose_for_row(scores.subspan(at, width), top_k, chosen, choices.weights);
  }
  choices.begins.assign(width + 1, 0);
  for (const std::size_t expert : chosen) {
    ++choices.begins[expert + 1];
  }
  for (std::size_t i = 0; i < width; ++i) {
    choices.begins[i + 1] += choices.begins[i];
  }
  std::vector<std::int64_t> next = choices.begins;
  choices.rows.resize(chosen.size());
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const std::int64_t slot = next[chosen[i]]++;
    choices.slots.push_back(slot);
    choices.rows[static_cast<std::size_t>(slot)] =
        static_cast<std::int64_t>(i) / top_k;
  }
  return choices;
}

} // namespace cairn::generate
