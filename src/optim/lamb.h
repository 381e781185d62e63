#pragma once

#include <cairn/optim/rule.h>

namespace cairn::optim {

struct LambOptions {
  bool bias_correction = true;
  double min_coefficient = 0.01; ///< bounds of the trust ratio
  double max_coefficient = 10;
};

/// LAMB scales the step of each parameter by the ratio of two norms: of its
/// weights and of the direction.
class Lamb final : public Rule {
 public:
  explicit Lamb(LambOptions options) : options_(options) {}

  std::string_view name() const override { return "lamb"; }
  std::span<const std::string_view> state_names() const override;
  Scope scope() const override { return Scope::parameter_norms; }
  void update(
      const Stretch& stretch,
      const GroupValues& values,
      const StepValues& step,
      Place place,
      float* direction) const override;
  Descent descent(
      const WholeParameter& whole,
      const GroupValues& values,
      const StepValues& step) const override;

 private:
  /// The factor of a parameter's step; 1 where either norm is zero.
  double trust_ratio(const WholeParameter& whole) const;

  LambOptions options_;
};

} // namespace cairn::optim
