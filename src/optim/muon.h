#pragma once

#include "optim/internal/newton_schulz.h"

#include <cairn/optim/rule.h>

#include <optional>
#include <span>
#include <string_view>

namespace cairn::optim {

struct MuonOptions {
  bool nesterov = true;
  OrthogonalMethod method = OrthogonalMethod::gram;
  GroupValues adam; ///< values of the parameters that Muon leaves to Adam
};

/// Muon makes the momentum of a matrix orthogonal. It takes hidden matrices,
/// and leaves embeddings, the output layer and vectors to Adam. A convolution
/// counts as a matrix of the first dimension by the product of the others.
class Muon final : public Rule {
 public:
  explicit Muon(MuonOptions options);

  std::string_view name() const override { return "muon"; }
  std::span<const std::string_view> state_names() const override;
  std::size_t states_of(
      std::string_view name,
      std::span<const std::int64_t> shape) const override;
  Scope scope() const override { return Scope::whole_matrices; }
  OrthogonalMethod orthogonal_method() const override {
    return options_.method;
  }
  const Rule& rule_for(
      std::string_view name,
      std::span<const std::int64_t> shape) const override;
  std::optional<GroupValues> rest_values() const override {
    return options_.adam;
  }
  void update(
      const Stretch& stretch,
      const GroupValues& values,
      const StepValues& step,
      Place place,
      float* direction) const override;
  /// Tall matrices take larger steps.
  Descent descent(
      const WholeParameter& whole,
      const GroupValues& values,
      const StepValues& step) const override;

 private:
  MuonOptions options_;
  std::unique_ptr<Rule> rest_;
};

} // namespace cairn::optim
