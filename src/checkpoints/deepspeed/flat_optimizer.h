#pragma once

#include "checkpoints/deepspeed/flat_parameters.h"
#include "checkpoints/deepspeed/saved_optimizer.h"

#include <filesystem>
#include <memory>
#include <vector>

namespace cairn::checkpoints::deepspeed {

/// Keys under which a stage keeps the parts of an optimizer.
struct FlatKeys {
  const char* weights = "";
  const char* states = "";
  /// True when each parameter is cut over the ranks by itself.
  bool by_parameter = false;
};

/// The fp32 weights and states of an optimizer over flat tensors, of all ranks.
class FlatOptimizer final : public SavedOptimizer {
 public:
  /// `dicts` are the saved optimizers of the ranks, `files` their files. Throws
  /// CheckpointError if they do not fit the parameters or each other.
  FlatOptimizer(
      const FlatKeys& keys,
      ShapeGroups parameters,
      std::vector<PythonValue> dicts,
      std::vector<std::filesystem::path> files);

  NamedTensors weights() const override;
  NamedTensors states() const override;
  std::vector<StoredGroup> groups() const override;

 private:
  FlatKeys keys_;
  ShapeGroups parameters_;
  std::vector<PythonValue> dicts_;
  std::vector<std::filesystem::path> files_;
  std::shared_ptr<const FlatTensors> weights_;
  std::vector<FlatParameter> plan_;
};

} // namespace cairn::checkpoints::deepspeed
