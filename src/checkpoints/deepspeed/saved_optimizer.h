#pragma once

#include <cairn/checkpoints/lazy_tensor.h>
#include <cairn/checkpoints/stored_group.h>

#include <vector>

namespace cairn::checkpoints::deepspeed {

/// An optimizer by the names of its parameters, however a stage stores it.
class SavedOptimizer {
 public:
  virtual ~SavedOptimizer() = default;
  /// fp32 weights; empty if the optimizer has none of its own.
  virtual NamedTensors weights() const = 0;
  virtual NamedTensors states() const = 0;
  virtual std::vector<StoredGroup> groups() const = 0;
};

} // namespace cairn::checkpoints::deepspeed
