#pragma once

#include <cairn/optim/rule.h>

namespace cairn::optim {

struct SgdOptions {
  bool momentum = false; ///< whether there is one; the groups say how much
  bool nesterov = false;
  double dampening = 0;
};

/// Gradient descent as torch.optim.SGD.
class Sgd final : public Rule {
 public:
  explicit Sgd(SgdOptions options) : options_(options) {}

  std::string_view name() const override { return "sgd"; }
  std::span<const std::string_view> state_names() const override;
  void update(
      const Stretch& stretch,
      const GroupValues& values,
      const StepValues& step,
      Place place) const override;

 private:
  SgdOptions options_;
};

} // namespace cairn::optim
