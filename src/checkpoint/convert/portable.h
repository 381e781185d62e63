#pragma once

#include <cairn/checkpoint/convert.h>
#include <cairn/checkpoint/lazy_tensor.h>
#include <cairn/checkpoint/megatron.h>
#include <cairn/checkpoint/model_description.h>
#include <cairn/checkpoint/parameter_group.h>
#include <cairn/checkpoint/python_value.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace cairn::checkpoints {

/// A checkpoint on its way between two formats: readers fill in what theirs
/// has, writers take what theirs can hold.
struct Portable {
  /// Where it is known, the parameters have Cairn's names.
  std::optional<ModelDescription> description;
  /// Each once, as exact as they were saved.
  NamedTensors parameters;
  NamedTensors buffers;
  std::vector<Tie> ties;
  /// What the training computed in, where parameters are more exact.
  std::optional<at::ScalarType> trained_in;

  NamedTensors optimizer_states; ///< "exp_avg/NAME", "step/NAME", …
  /// Parameters in none are frozen, if there are any groups.
  std::vector<ParameterGroup> groups;

  std::int64_t steps = 0;
  std::int64_t skipped_steps = 0;
  std::int64_t samples = 0;
  /// DeepSpeed's names: cur_scale, cur_hysteresis, cur_iter, …; or None.
  PythonValue loss_scaler;
  PythonValue lr_scheduler;
  PythonValue config;                         ///< the run's; or None
  PythonValue client = PythonValue::dict({}); ///< the user's own
  PythonValue megatron_args;                  ///< or None
  std::vector<PythonValue::Member> megatron_others;
  bool released = false;           ///< Megatron's, without a step
  std::filesystem::path tokenizer; ///< where files of one may lie

  std::vector<std::string> left_out;
};

/// Members of dicts that hold a description, as JSON.
inline constexpr const char* description_key = "cairn_model";

/// What of the input is chosen, read as far as names, types and shapes.
Portable read_portable(CheckpointFormat format, const ConvertOptions& options);

/// To a folder that is not there yet, or to a file's name. What does not go
/// along is noted in left_out.
void write_portable(
    Portable& portable,
    const std::filesystem::path& place,
    const ConvertOptions& options);

/// The bytes that writing reads, about.
std::uint64_t bytes_to_read(
    const Portable& portable,
    const ConvertOptions& options);

/// Of the optimizer's states: "exp_avg", …, sorted.
std::vector<std::string> state_kinds(const Portable& portable);

} // namespace cairn::checkpoints
