#pragma once

#include <cairn/checkpoints/lazy_tensor.h>
#include <cairn/checkpoints/python_value.h>
#include <cairn/checkpoints/stored_group.h>

#include <filesystem>
#include <string>
#include <vector>

// The file that most training scripts save: torch.save({"model": …,
// "optimizer": …}).

namespace cairn::checkpoints {

struct TorchCheckpoint {
  NamedTensors weights; ///< tied names included
  std::vector<Tie> ties{};
  /// States of the optimizer: "exp_avg/fc1.weight", "step/fc1.weight" and any
  /// others.
  NamedTensors optimizer_states{};
  std::vector<StoredGroup> groups{};
  PythonValue rest = PythonValue::dict({}); ///< a dict of all else in the file
};

/// Reads such a file, or a model's state_dict alone. The members may also be
/// called "state_dict" or "model_state_dict", and "optimizer_state_dict".
///
/// An optimizer numbers its parameters. Their names come from `order`, which is
/// in the optimizer's order, or else from the model, which must then have no
/// other parameters. Throws CheckpointError where that leaves a choice.
TorchCheckpoint read_torch_checkpoint(
    const std::filesystem::path& path,
    const std::vector<std::string>& order = {});

/// Writes {"model": …, "optimizer": …} and the rest beside it. Without groups
/// there is no optimizer.
void write_torch_checkpoint(
    const std::filesystem::path& path,
    const TorchCheckpoint& checkpoint);

} // namespace cairn::checkpoints
