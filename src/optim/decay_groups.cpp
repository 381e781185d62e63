#include <cairn/optim/parameter_groups.h>

namespace cairn::optim {

std::vector<GroupedParameters> group_parameters(
    std::span<const NamedShape> parameters,
    const GroupValues& values,
    std::span<const GroupRule> rules) {
  std::vector<GroupedParameters> groups{{"default", values, {}}};
  for (const GroupRule& rule : rules) {
    groups.push_back({rule.name, values, {}});
    rule.patch.apply_to(groups.back().values);
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    std::size_t group = 0;
    for (std::size_t r = 0; r < rules.size() && group == 0; ++r) {
      group = rules[r].takes(parameters[i]) ? r + 1 : 0;
    }
    groups[group].members.push_back(i);
  }
  std::erase_if(groups, [](const GroupedParameters& group) {
    return group.members.empty();
  });
  return groups;
}

GroupRule no_decay_rule() {
  return {
      .name = "no-decay",
      .takes =
          [](const NamedShape& parameter) {
            return parameter.shape.size() <= 1 || parameter.name == "bias" ||
                parameter.name.ends_with(".bias");
          },
      .patch = {.weight_decay = 0}};
}

} // namespace cairn::optim
