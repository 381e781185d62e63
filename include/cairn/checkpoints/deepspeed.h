#pragma once

#include <cairn/checkpoints/lazy_tensor.h>
#include <cairn/checkpoints/python_value.h>
#include <cairn/checkpoints/stored_group.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

// The folders that DeepSpeed's save_checkpoint writes, ZeRO stages 0 to 3.

namespace cairn::checkpoints {

struct DeepSpeedSource {
  std::filesystem::path folder;
  /// Checkpoint to read; empty for the one that `latest` names, or the folder
  /// itself.
  std::string tag{};
  /// Rank to read. With model parallelism, every rank has a checkpoint of its
  /// own.
  int model_parallel_rank = 0;
  /// Names of the parameters in the optimizer's order. Needed at stage 0 where
  /// the file leaves open which state belongs to which parameter.
  std::vector<std::string> optimizer_order{};
};

/// Reads a checkpoint of DeepSpeed. Tensors are put together from the ranks'
/// shards when they are loaded. Files that are missing, torn or contradict each
/// other are CheckpointErrors that name them.
///
///   DeepSpeedCheckpoint checkpoint({.folder = "run/checkpoints"});
///   for (const auto& [name, tensor] : checkpoint.fp32_weights()) {
///     module_weights.at(name).copy_(tensor.load());
///   }
class DeepSpeedCheckpoint {
 public:
  explicit DeepSpeedCheckpoint(DeepSpeedSource source);
  ~DeepSpeedCheckpoint();
  DeepSpeedCheckpoint(DeepSpeedCheckpoint&&) noexcept;

  const std::string& tag() const;
  int stage() const;
  /// Number of data-parallel ranks.
  std::int64_t ranks() const;
  int model_parallel_size() const;

  /// All parameters and buffers in fp32, tied names included. This is what
  /// DeepSpeed's own zero_to_fp32 gives; at stage 0 it is the saved weights,
  /// converted.
  NamedTensors fp32_weights() const;
  /// All parameters and buffers in the type that was trained in, tied names
  /// included.
  NamedTensors weights() const;
  /// The fp32 copies that the optimizer updates; empty at stage 0 in fp32.
  NamedTensors masters() const;
  /// States of the optimizer: "exp_avg/fc1.weight", "step/fc1.weight" and any
  /// others.
  NamedTensors optimizer_states() const;
  std::vector<StoredGroup> groups() const;

  std::vector<std::string> buffers() const;
  std::vector<Tie> ties() const;

  std::int64_t global_steps() const;
  std::int64_t skipped_steps() const;
  std::int64_t global_samples() const;
  PythonValue lr_scheduler() const; ///< None if absent
  PythonValue loss_scaler() const;  ///< an object or a dict; None if absent
  PythonValue config() const;       ///< DeepSpeed's, a dict; None if absent
  PythonValue client_state() const; ///< a dict of what the user gave

 private:
  struct Files;
  std::unique_ptr<const Files> files_;
};

/// The weights in a pipeline's layer files: "3.weight" is of layer 3. The rank
/// in `source` is the tensor-parallel one.
NamedTensors read_deepspeed_layers(const DeepSpeedSource& source);

/// Content of a checkpoint to write. Tensors are loaded when their turn comes.
struct DeepSpeedState {
  NamedTensors parameters; ///< trained ones, in the model's order
  NamedTensors frozen{};
  NamedTensors buffers{};
  std::vector<Tie> ties{};
  /// fp32 copies of the parameters. Empty: the parameters themselves.
  NamedTensors masters{};
  NamedTensors optimizer_states{}; ///< named as optimizer_states() names them
  /// Parameter groups. Empty: all parameters are one group.
  std::vector<StoredGroup> groups{};
  std::int64_t global_steps = 0;
  std::int64_t skipped_steps = 0;
  std::int64_t global_samples = 0;
  PythonValue lr_scheduler{};
  PythonValue loss_scaler{};                  ///< None: DeepSpeed's own default
  PythonValue config = PythonValue::dict({}); ///< DeepSpeed's
  PythonValue client_state = PythonValue::dict({}); ///< the user's own values
};

struct DeepSpeedLayout {
  int stage = 2;
  int ranks = 1;                       ///< number of data-parallel ranks
  at::ScalarType type = at::kBFloat16; ///< or fp16 or fp32
  std::string tag{};                   ///< empty: global_stepN
  /// Elements of one rank in one flat tensor of stage 3; the default is
  /// DeepSpeed's.
  std::int64_t sub_group_size = 1'000'000'000;
};

/// Writes a folder that DeepSpeed's load_checkpoint and zero_to_fp32 read. The
/// file `latest` is written last.
void write_deepspeed(
    const std::filesystem::path& folder,
    const DeepSpeedState& state,
    const DeepSpeedLayout& layout);

} // namespace cairn::checkpoints
