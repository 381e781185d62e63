#pragma once

#include "engine/build/model_parameters.h"
#include "engine/build/parameter_share.h"
#include "zero/internal/layout.h"

#include <cairn/engine/optimizer.h>
#include <cairn/optim/parameter_groups.h>
#include <cairn/optim/rule.h>

#include <vector>

namespace cairn::inline engine {

/// The material of a layout: a line per parameter, and the values of the groups
/// that the lines name.
struct LayoutPlan {
  std::vector<zero::ParameterSpec> parameters;
  std::vector<optim::GroupValues> groups;
};

/// Puts parameters into groups, and keeps those apart that cannot share a
/// bucket. Without `groups` all are in one; `defaults` are the values that a
/// group leaves open. `rule` is null for a client's optimizer. Throws
/// UsageError for groups that do not fit the model.
LayoutPlan plan_layout(
    const ModelParameters& parameters,
    const std::vector<ParameterShare>& shares,
    const std::vector<ParameterGroup>& groups,
    const optim::GroupValues& defaults,
    const optim::Rule* rule);

} // namespace cairn::engine
