#include "pretrain/run/state_norms.h"

#include <cairn/base/error.h>
#include <cairn/optim/rule.h>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace cairn::pretrain {

namespace {

constexpr const char* first_moment = "exp_avg";
constexpr const char* second_moment = "exp_avg_sq";

monitor::StateNorms norms_of(const ElementSums& sums) {
  return {.l2 = sums.norm(), .l1 = sums.absolutes, .abs_max = sums.largest};
}

/// Norms of the elements' square roots.
monitor::StateNorms norms_of_roots(const ElementSums& sums) {
  return {
      .l2 = std::sqrt(sums.absolutes),
      .l1 = sums.roots,
      .abs_max = std::sqrt(sums.largest)};
}

} // namespace

void require_moments(const config::OptimizerConfig& config) {
  const auto rule = optim::make_rule(config);
  for (const std::string_view state : {first_moment, second_moment}) {
    if (std::ranges::find(rule->state_names(), state) ==
        rule->state_names().end()) {
      throw ConfigError(
          {.what = "the optimizer does not have both moments of Adam",
           .where = "--log-optimizer-states-to-tensorboard",
           .values = config.type.value_or(""),
           .remedy = "leave it out, or use Adam, AdamW or Lamb"});
    }
  }
}

monitor::OptimizerNorms optimizer_norms(Engine& engine) {
  const auto sums = engine.state_sums({second_moment, first_moment, "weight"});
  return {
      .variance = norms_of(sums[0]),
      .variance_sqrt = norms_of_roots(sums[0]),
      .momentum = norms_of(sums[1]),
      .weight = norms_of(sums[2])};
}

} // namespace cairn::pretrain
