#pragma once

#include "launch/internal/node_plan.h"

#include <string>
#include <vector>

namespace cairn::launch {

/// The environment of this process as NAME=VALUE, with `changes` applied.
std::vector<std::string> own_environment(const Variables& changes);

} // namespace cairn::launch
