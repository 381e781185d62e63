#pragma once

#include <cairn/checkpoints/stored_group.h>

#include <vector>

namespace cairn::checkpoints {

/// Names in a flat dict whose tensors are the same memory as an earlier one's:
/// this is how ties show in files that do not list them.
std::vector<Tie> tied_names(const PythonValue& dict);

} // namespace cairn::checkpoints
