#pragma once

#include <c10/core/ScalarType.h>

#include <string>

namespace cairn::checkpoints {

/// True for a tensor that looks like a buffer: a state_dict does not say which
/// of its tensors are no parameters.
inline bool is_buffer(const std::string& name, c10::ScalarType type) {
  const std::string last = name.substr(name.rfind('.') + 1);
  return !c10::isFloatingType(type) || last == "running_mean" ||
      last == "running_var" || last == "inv_freq";
}

} // namespace cairn::checkpoints
