#pragma once

#include "engine/build/job.h"

#include <cairn/config/deepspeed_config.h>

namespace cairn::inline engine {

/// Factors that turn a sum of gradients over ranks into what the configuration
/// asks for: their mean, or their sum.
struct GradientFactors {
  double before = 1; ///< on every rank, before the sum
  double after = 1;  ///< of the sum
};

/// `prescale_gradients` divides before the sum, else
/// `gradient_predivide_factor` does its part there. Sums of 16-bit numbers
/// (`narrow`) would overflow without either.
inline GradientFactors gradient_factors(
    const config::GradientConfig& gradients,
    double ranks,
    bool narrow) {
  const bool divides_before =
      gradients.prescale || (narrow && gradients.predivide_factor == 1);
  const double before =
      1 / (divides_before ? ranks : gradients.predivide_factor);
  return {
      .before = before,
      .after = gradients.allreduce_op == config::ReduceOp::sum
          ? 1 / before
          : 1 / (ranks * before)};
}

inline GradientFactors gradient_factors(const Job& job) {
  return gradient_factors(
      job.deepspeed().gradients,
      job.group.size(),
      job.precision.communicate != at::kFloat);
}

} // namespace cairn::engine
