#pragma once

#include <cairn/checkpoints/lazy_tensor.h>
#include <cairn/checkpoints/python_value.h>
#include <cairn/checkpoints/stored_group.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace cairn::checkpoints {

struct TorchFileLimits {
  /// Largest size of the pickle, which describes the tensors.
  std::size_t pickle_bytes = std::size_t{1} << 30;
  /// Most values in the pickle.
  std::size_t values = 5'000'000;
};

/// Reads a file of Python's torch.save, in today's format or the one before
/// torch 1.6. Nothing in the file is run, whatever it asks for. Tensors are
/// read when asked for; the file must not change while a value of it is alive.
///
/// Throws CheckpointError, saying what is wrong, for any other file.
PythonValue read_torch_file(
    const std::filesystem::path& path,
    const TorchFileLimits& limits = {});

/// Writes a file that Python's torch.load(path, weights_only=True) opens if the
/// value holds nothing but data. Tensors that share memory here share it there.
void write_torch_file(
    const std::filesystem::path& path,
    const PythonValue& value);

// The file that most training scripts save: torch.save({"model": …,
// "optimizer": …}).

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
