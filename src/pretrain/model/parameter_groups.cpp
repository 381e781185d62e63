#include "pretrain/model/parameter_groups.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

namespace cairn::pretrain {

namespace {

bool is_embedding_or_output(std::string_view name) {
  return name.ends_with("embedding.word.weight") || name == "head.weight" ||
      name.ends_with(".head.weight");
}

} // namespace

std::vector<ParameterGroup> parameter_groups(
    const torch::nn::Module& module,
    const config::LearningRateFlags& flags) {
  std::vector<ParameterGroup> groups = no_decay_groups(module);
  if (!flags.decoupled_lr) {
    return groups;
  }
  std::vector<at::Tensor> decoupled;
  for (const auto& parameter : module.named_parameters()) {
    if (is_embedding_or_output(parameter.key())) {
      decoupled.push_back(parameter.value());
    }
  }
  std::vector<at::Tensor>& others = groups.front().parameters;
  const auto rest =
      std::stable_partition(others.begin(), others.end(), [&](const auto& one) {
        return std::ranges::none_of(decoupled, [&](const auto& other) {
          return one.is_same(other);
        });
      });
  ParameterGroup own;
  own.parameters.assign(
      std::make_move_iterator(rest),
      std::make_move_iterator(others.end()));
  others.erase(rest, others.end());
  groups.push_back(std::move(own)); // `others` is no longer what it was
  return groups;
}

} // namespace cairn::pretrain
