#pragma once

#include <cairn/checkpoint/lazy_tensor.h>
#include <cairn/checkpoint/parameter_group.h>
#include <cairn/checkpoint/python_value.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

// The folders that DeepSpeed's save_checkpoint writes, ZeRO stages 0 to 3.

namespace cairn::checkpoints {

struct DeepSpeedSource {
  std::filesystem::path folder;
  std::string tag{}; ///< empty: what `latest` names, or the folder itself
  /// With model parallelism, every rank has a checkpoint of its own.
  int model_parallel_rank = 0;
  /// Names of the parameters in the optimizer's order. Wanted at stage 0 where
  /// the file leaves open which state belongs to which parameter.
  std::vector<std::string> optimizer_order{};
};

/// Reads one. Tensors are put together from the ranks' shards when they are
/// loaded. Files that are missing, torn or contradict each other are
/// CheckpointErrors that name them.
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
  std::int64_t ranks() const; ///< data-parallel
  int model_parallel_size() const;

  /// All parameters and buffers, tied names as well: what DeepSpeed's own
  /// zero_to_fp32 gives, and at stage 0 the weights as they are, in fp32.
  NamedTensors fp32_weights() const;
  /// The same in the type that was trained in.
  NamedTensors weights() const;
  /// What the optimizer steps on, in fp32; empty at stage 0 in fp32.
  NamedTensors masters() const;
  /// "exp_avg/fc1.weight", "step/fc1.weight" and whatever else there is.
  NamedTensors optimizer_states() const;
  std::vector<ParameterGroup> groups() const;

  std::vector<std::string> buffers() const;
  std::vector<Tie> ties() const;

  std::int64_t global_steps() const;
  std::int64_t skipped_steps() const;
  std::int64_t global_samples() const;
  PythonValue lr_scheduler() const; ///< None without
  PythonValue loss_scaler() const;  ///< an object or a dict; None without
  PythonValue config() const;       ///< of DeepSpeed, a dict; None without
  PythonValue client_state() const; ///< a dict: what the user gave

 private:
  struct Files;
  std::unique_ptr<const Files> files_;
};

/// The weights of a pipeline's layer files: "3.weight" of layer 3. The source's
/// rank is the tensor-parallel one.
NamedTensors read_deepspeed_layers(const DeepSpeedSource& source);

/// What is written. Tensors are asked for when their turn comes.
struct DeepSpeedState {
  NamedTensors parameters; ///< trained, in the model's order
  NamedTensors frozen{};
  NamedTensors buffers{};
  std::vector<Tie> ties{};
  /// fp32 copies of the parameters; without, the parameters themselves.
  NamedTensors masters{};
  NamedTensors optimizer_states{}; ///< named as above
  /// Without any, all parameters are one.
  std::vector<ParameterGroup> groups{};
  std::int64_t global_steps = 0;
  std::int64_t skipped_steps = 0;
  std::int64_t global_samples = 0;
  PythonValue lr_scheduler{};
  PythonValue loss_scaler{};                        ///< None: DeepSpeed's own
  PythonValue config = PythonValue::dict({});       ///< of DeepSpeed
  PythonValue client_state = PythonValue::dict({}); ///< beside the rest
};

struct DeepSpeedLayout {
  int stage = 2;
  int ranks = 1;                       ///< data-parallel
  at::ScalarType type = at::kBFloat16; ///< or fp16 or fp32
  std::string tag{};                   ///< empty: global_stepN
  /// Elements of a rank in one flat tensor of stage 3; DeepSpeed's default.
  std::int64_t sub_group_size = 1'000'000'000;
};

/// Writes a folder that DeepSpeed's load_checkpoint and zero_to_fp32 read; the
/// file `latest` comes last.
void write_deepspeed(
    const std::filesystem::path& folder,
    const DeepSpeedState& state,
    const DeepSpeedLayout& layout);

} // namespace cairn::checkpoints
