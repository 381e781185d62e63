#pragma once

#include <cairn/optim/group_values.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::optim {

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
