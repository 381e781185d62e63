#include "engine/build/layout_plan.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

namespace cairn::inline engine {

namespace {

constexpr int not_trained = -1;
constexpr int most_shared_kinds = 1 << 20;

/// The group of each parameter, by its place in `parameters`.
std::vector<int> groups_of(
    const ModelParameters& parameters,
    const std::vector<ParameterGroup>& groups) {
  std::vector<int> result(parameters.tensors.size(), 0);
  if (!groups.empty()) {
    std::unordered_map<const c10::TensorImpl*, int> place;
    for (std::size_t i = 0; i < result.size(); ++i) {
      place[parameters.tensors[i].unsafeGetTensorImpl()] = static_cast<int>(i);
      result[i] = not_trained;
    }
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (const at::Tensor& tensor : groups[g].parameters) {
        const auto found = place.find(tensor.unsafeGetTensorImpl());
        if (found == place.end()) {
          throw UsageError(
              {.what = "a parameter that is not the model's",
               .where = fmt::format("model_parameters, group {}", g),
               .remedy = "take them from module.parameters()"});
        }
        int& group = result[found->second];
        if (group != not_trained) {
          throw UsageError(
              {.what = "a parameter is in two groups",
               .where = parameters.names[found->second],
               .values = fmt::format("groups {} and {}", group, g)});
        }
        group = static_cast<int>(g);
      }
    }
  }
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (!parameters.tensors[i].requires_grad()) {
      result[i] = not_trained;
    }
  }
  return result;
}

/// Splits every group in two if the rule leaves some parameters to another
/// rule, which has a learning rate of its own.
void split_by_rule(
    const optim::Rule& rule,
    const ModelParameters& parameters,
    std::vector<int>& groups,
    std::vector<optim::GroupValues>& values) {
  const auto rest = rule.rest_values();
  if (!rest) {
    return;
  }
  const int before = static_cast<int>(values.size());
  for (int g = 0; g < before; ++g) {
    values.push_back(*rest);
    values.back().weight_decay = values[g].weight_decay;
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const auto shape = parameters.tensors[i].sizes();
    if (groups[i] != not_trained &&
        &rule.rule_for(parameters.names[i], shape) != &rule) {
      groups[i] += before;
    }
  }
}

/// A number for each parameter; parameters of different numbers do not share a
/// bucket. They differ if other ranks hold them or sum their gradients, and
/// each tied parameter has its own: then the ranks that sum a bucket have the
/// same in it.
std::vector<int> kinds_of(const std::vector<ParameterShare>& shares) {
  std::map<std::pair<std::vector<int>, std::vector<int>>, int> kinds;
  std::vector<int> result;
  int tied = 0;
  for (const ParameterShare& share : shares) {
    const int next = static_cast<int>(kinds.size());
    const int kind = kinds.emplace(std::pair(share.holders, share.summed), next)
                         .first->second;
    result.push_back(share.tied ? most_shared_kinds / 2 + tied++ : kind);
  }
  return result;
}

} // namespace

LayoutPlan plan_layout(
    const ModelParameters& parameters,
    const std::vector<ParameterShare>& shares,
    const std::vector<ParameterGroup>& groups,
    const optim::GroupValues& defaults,
    const optim::Rule* rule) {
  LayoutPlan plan;
  plan.groups.assign(std::max<std::size_t>(1, groups.size()), defaults);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    groups[g].values.apply_to(plan.groups[g]);
  }
  std::vector<int> group = groups_of(parameters, groups);
  if (rule != nullptr) {
    split_by_rule(*rule, parameters, group, plan.groups);
  }
  const std::vector<int> kinds = kinds_of(shares);
  for (std::size_t i = 0; i < group.size(); ++i) {
    zero::ParameterSpec spec{
        .name = parameters.names[i],
        .shape = parameters.tensors[i].sizes().vec(),
        .group = std::max(0, group[i]),
        .trainable = group[i] != not_trained,
        .kind = kinds[i],
        .expert = shares[i].expert};
    if (rule != nullptr) { // keeps buckets free of states that few need
      spec.kind += most_shared_kinds *
          static_cast<int>(rule->states_of(spec.name, spec.shape));
    }
    plan.parameters.push_back(std::move(spec));
  }
  if (std::ranges::none_of(plan.parameters, &zero::ParameterSpec::trainable)) {
    throw UsageError(
        {.what = "no parameter is trained",
         .remedy = "set requires_grad, or list some in model_parameters"});
  }
  return plan;
}

} // namespace cairn::engine
