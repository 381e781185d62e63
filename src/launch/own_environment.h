#pragma once

#include <cairn/launch/node_plan.h>

#include <string>
#include <vector>

namespace cairn::launch {

/// This process's environment as NAME=VALUE, with `changes` made to it.
std::vector<std::string> own_environment(const Variables& changes);

} // namespace cairn::launch
