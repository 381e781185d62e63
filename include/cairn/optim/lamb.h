#pragma once

#include <cairn/optim/rule.h>

namespace cairn::optim {

struct LambOptions {
  bool bias_correction = true;
  double min_coefficient = 0.01; ///< bounds of the trust ratio
  double max_coefficient = 10;
};

/// LAMB scales the step of each parameter by the ratio of two norms, which may
/// spread over ranks. The caller drives it:
///
///   lamb.direction(stretch, values, step, place, out);
///   // per parameter, summed over its slices: squares of weights and of out
///   const double trust = lamb.trust_ratio(weight_squares, direction_squares);
///   lamb.apply(slice, out_of_slice, trust, values, step, place);
class Lamb final : public Rule {
 public:
  explicit Lamb(LambOptions options) : options_(options) {}

  std::string_view name() const override { return "lamb"; }
  std::span<const std::string_view> state_names() const override;
  Scope scope() const override { return Scope::parameter_norms; }

  /// Updates both averages and writes the direction of the step.
  void direction(
      const Stretch& stretch,
      const GroupValues& values,
      const StepValues& step,
      Place place,
      float* out) const;

  /// 1 where either norm is zero.
  double trust_ratio(double weight_squares, double direction_squares) const;

  /// Moves the weights of a slice of one parameter, and writes their copy.
  void apply(
      const Stretch& stretch,
      const float* direction,
      double trust_ratio,
      const GroupValues& values,
      const StepValues& step,
      Place place) const;

 private:
  LambOptions options_;
};

} // namespace cairn::optim
