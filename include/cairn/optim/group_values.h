#pragma once

#include <array>
#include <optional>

namespace cairn::optim {

/// Values that may differ between parameter groups and, through a schedule,
/// from step to step. A rule reads those that its formula has and ignores the
/// rest.
struct GroupValues {
  double lr = 1e-3;
  double weight_decay = 0;
  std::array<double, 2> betas{0.9, 0.999};
  double eps = 1e-8;
  double momentum = 0;

  bool operator==(const GroupValues&) const = default;
};

/// Changes to a group's values; a value that is unset stays.
struct GroupValuesPatch {
  std::optional<double> lr{};
  std::optional<double> weight_decay{};
  std::optional<std::array<double, 2>> betas{};
  std::optional<double> eps{};
  std::optional<double> momentum{};

  void apply_to(GroupValues& values) const;
  bool operator==(const GroupValuesPatch&) const = default;
};

} // namespace cairn::optim
