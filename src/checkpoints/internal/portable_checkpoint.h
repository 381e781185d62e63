#pragma once

#include <cairn/checkpoints/convert.h>
#include <cairn/checkpoints/lazy_tensor.h>
#include <cairn/checkpoints/megatron.h>
#include <cairn/checkpoints/python_value.h>
#include <cairn/checkpoints/stored_group.h>
#include <cairn/model/description.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace cairn::checkpoints {

/// A checkpoint on its way between two formats. Readers fill in the members
/// that their format has; writers take those that their format can hold.
struct Portable {
  /// The model, where it is known. The parameters then have Cairn's names.
  std::optional<model::ModelDescription> description;
  /// The advice for a checkpoint whose model could not be told from its files,
  /// such as flags to give. Empty if there is none.
  std::string unknown_model;
  /// Parameters, each once, as exact as they were saved.
  NamedTensors parameters;
  NamedTensors buffers;
  std::vector<Tie> ties;
  /// Type that the training computed in, where parameters are more exact.
  std::optional<at::ScalarType> trained_in;

  NamedTensors optimizer_states; ///< "exp_avg/NAME", "step/NAME", …
  /// Name of the engine's optimizer; empty: to be told from the states.
  std::string optimizer;
  /// Parameter groups. If there are any, parameters in none of them are frozen.
  std::vector<StoredGroup> groups;

  std::int64_t steps = 0;
  std::int64_t skipped_steps = 0;
  std::int64_t samples = 0;                       ///< consumed in training
  std::optional<std::int64_t> validation_samples; ///< unset: not known
  /// Samples that the learning-rate schedule has counted, if it counts samples
  /// and not updates.
  std::optional<std::int64_t> schedule_samples;
  /// Rows of the vocabulary's padding that were not read, though the run trains
  /// them.
  std::int64_t padding = 0;
  /// State under DeepSpeed's names: cur_scale, cur_hysteresis, cur_iter, …; or
  /// None.
  PythonValue loss_scaler;
  PythonValue lr_scheduler;
  PythonValue config; ///< the run's; or None
  /// The flags of a run of `cairn pretrain`, by their names; or None.
  PythonValue flags;
  PythonValue client = PythonValue::dict({}); ///< the user's own values
  PythonValue megatron_args;                  ///< or None
  std::vector<PythonValue::Member> megatron_others;
  /// Spelling of the names in Megatron's files; unset for other files.
  std::optional<MegatronNames> megatron_names;
  /// True where files of Megatron's have states of random generators.
  bool random_states = false;
  std::optional<std::int64_t> seed; ///< of a run of Megatron's
  bool released = false;            ///< a release of Megatron's, without a step
  std::filesystem::path tokenizer;  ///< folder that may have tokenizer files

  std::vector<std::string> left_out;
};

/// Key of a model description (as JSON) in dicts.
inline constexpr const char* description_key = "cairn_model";
/// Key of Portable::schedule_samples in dicts.
inline constexpr const char* schedule_key = "cairn_schedule_samples";
/// Key of Portable::optimizer in dicts.
inline constexpr const char* optimizer_key = "cairn_optimizer";

/// Reads the part of the input that the options choose, as far as names, types
/// and shapes.
Portable read_portable(CheckpointFormat format, const ConvertOptions& options);

/// Writes to a folder that does not exist yet, or to a file. Parts that cannot
/// be written are noted in left_out.
void write_portable(
    Portable& portable,
    const std::filesystem::path& place,
    const ConvertOptions& options);

/// True for a format that holds optimizer states.
bool holds_states(CheckpointFormat format);

/// Takes away optimizer states that the output cannot hold, and notes it. Notes
/// as well what the states lack for a training to go on as before.
void leave_out_states(Portable& portable, const ConvertOptions& options);

/// Estimate of the bytes that writing reads.
std::uint64_t bytes_to_read(
    const Portable& portable,
    const ConvertOptions& options);

/// Kinds of the optimizer's states, sorted: "exp_avg", …
std::vector<std::string> state_kinds(const Portable& portable);

} // namespace cairn::checkpoints
