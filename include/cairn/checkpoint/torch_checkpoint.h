#pragma once

#include <cairn/checkpoint/lazy_tensor.h>
#include <cairn/checkpoint/parameter_group.h>
#include <cairn/checkpoint/python_value.h>

#include <filesystem>
#include <string>
#include <vector>

// What most training scripts save: torch.save({"model": …, "optimizer": …}).

namespace cairn::checkpoints {

struct TorchCheckpoint {
  NamedTensors weights; ///< tied names as well
  std::vector<Tie> ties{};
  /// "exp_avg/fc1.weight", "step/fc1.weight" and whatever else there is.
  NamedTensors optimizer_states{};
  std::vector<ParameterGroup> groups{};
  PythonValue rest = PythonValue::dict({}); ///< a dict: what else is in there
};

/// Reads one, or a state_dict of a model alone. The members may also be called
/// "state_dict" or "model_state_dict", and "optimizer_state_dict".
///
/// An optimizer numbers its parameters: the names come from `order`, in its
/// order, or from the model's, which must have no others then. Throws
/// CheckpointError where that leaves a choice.
TorchCheckpoint read_torch_checkpoint(
    const std::filesystem::path& path,
    const std::vector<std::string>& order = {});

/// Writes {"model": …, "optimizer": …} and the rest beside it; without groups
/// there is no optimizer.
void write_torch_checkpoint(
    const std::filesystem::path& path,
    const TorchCheckpoint& checkpoint);

} // namespace cairn::checkpoints
