#pragma once

#include <cairn/checkpoints/python_value.h>

#include <string>
#include <utility>
#include <vector>

namespace cairn::checkpoints {

/// Parameters that an optimizer treats alike.
struct StoredGroup {
  std::vector<std::string> names;              ///< in the optimizer's order
  PythonValue options = PythonValue::dict({}); ///< a dict: lr, betas, …
};

/// Another name of a tensor, and the name that it is stored under.
using Tie = std::pair<std::string, std::string>;

} // namespace cairn::checkpoints
