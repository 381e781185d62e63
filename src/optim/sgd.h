#pragma once

#include <cairn/optim/rule.h>

namespace cairn::optim {

struct SgdOptions {
  bool momentum = false; ///< there is momentum; the groups say how much
  bool nesterov = false;
  double dampening = 0;
};

/// Gradient descent with the formula of torch.optim.SGD.
class Sgd final : public Rule {
 public:
  explicit Sgd(SgdOptions options) : options_(options) {}

  std::string_view name() const override { return "sgd"; }
  std::span<const std::string_view> state_names() const override;
  void update(
      const Stretch& stretch,
      const GroupValues& values,
      const StepValues& step,
      Place place,
      float* direction) const override;

 private:
  SgdOptions options_;
};

} // namespace cairn::optim
