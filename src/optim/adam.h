#pragma once

#include <cairn/optim/rule.h>

namespace cairn::optim {

struct AdamOptions {
  bool decoupled = true; ///< AdamW's weight decay rather than L2
  bool bias_correction = true;
};

class Adam final : public Rule {
 public:
  explicit Adam(AdamOptions options) : options_(options) {}

  std::string_view name() const override {
    return options_.decoupled ? "adamw" : "adam";
  }
  std::span<const std::string_view> state_names() const override;
  void update(
      const Stretch& stretch,
      const GroupValues& values,
      const StepValues& step,
      Place place,
      float* direction) const override;

 private:
  AdamOptions options_;
};

} // namespace cairn::optim
