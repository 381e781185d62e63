#pragma once

#include <cairn/optim/rule.h>

namespace cairn::optim {

struct AdagradOptions {
  double lr_decay = 0;
  double initial_accumulator = 0;
};

/// Adagrad with the formula of torch.optim.Adagrad.
class Adagrad final : public Rule {
 public:
  explicit Adagrad(AdagradOptions options) : options_(options) {}

  std::string_view name() const override { return "adagrad"; }
  std::span<const std::string_view> state_names() const override;
  float initial_state() const override {
    return static_cast<float>(options_.initial_accumulator);
  }
  void update(
      const Stretch& stretch,
      const GroupValues& values,
      const StepValues& step,
      Place place,
      float* direction) const override;

 private:
  AdagradOptions options_;
};

} // namespace cairn::optim
