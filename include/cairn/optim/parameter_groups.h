#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

struct NamedShape {
  std::string name;
  std::vector<std::int64_t> shape;
};

/// The parameters that a group takes, and the values that it changes for them.
struct GroupRule {
  std::string name; ///< for people: "no-decay"
  std::function<bool(const NamedShape&)> takes;
  GroupValuesPatch patch;
};

struct GroupedParameters {
  std::string name;
  GroupValues values;
  std::vector<std::size_t> members; ///< ascending positions
};

/// Groups parameters. Every parameter goes to the first rule that takes it, or
/// to the group "default", which comes first. Groups without members are left
/// out.
std::vector<GroupedParameters> group_parameters(
    std::span<const NamedShape> parameters,
    const GroupValues& values,
    std::span<const GroupRule> rules);

/// Megatron's rule: no weight decay on biases and one-dimensional parameters.
GroupRule no_decay_rule();

} // namespace cairn::optim
