#pragma once

#include <cairn/optim/rule.h>

namespace cairn::optim {

class Lion final : public Rule {
 public:
  std::string_view name() const override { return "lion"; }
  std::span<const std::string_view> state_names() const override;
  void update(
      const Stretch& stretch,
      const GroupValues& values,
      const StepValues& step,
      Place place,
      float* direction) const override;
};

} // namespace cairn::optim
