#pragma once

#include <cairn/checkpoint/lazy_tensor.h>
#include <cairn/checkpoint/model_description.h>
#include <cairn/checkpoint/python_value.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

// Checkpoints of Megatron-LM's own models (GPT, BERT, T5), a file per rank:
//
//   latest_checkpointed_iteration.txt          "10", or "release"
//   iter_0000010/mp_rank_00/model_optim_rng.pt
//   iter_0000010/mp_rank_00_001/…              with pipeline stages
//
// and of the same models under DeepSpeed (latest, global_step10/
// mp_rank_00_model_states.pt). Optimizer states are not read.

namespace cairn::checkpoints {

/// How a model is cut over ranks.
struct MegatronSplit {
  std::int64_t tensor = 1;
  std::int64_t pipeline = 1;
  /// T5 in several stages: those of the encoder; 0 is half of them.
  std::int64_t encoder_stages = 0;

  bool operator==(const MegatronSplit&) const = default;
};

/// The rows of joined query, key and value weights.
enum class MegatronHeads {
  /// As the file's checkpoint_version says. Megatron-DeepSpeed of December 2024
  /// and later says 3 and writes the order below: known by its args.
  by_version,
  queries_keys_values ///< all queries of a rank, all keys, all values
};

struct MegatronReadOptions {
  MegatronHeads heads = MegatronHeads::by_version;
  /// Another than the newest one, where `folder` has several.
  std::optional<std::int64_t> iteration;
  /// Without padding, where the file does not say.
  std::optional<std::int64_t> vocabulary;
  /// In place of the file's args: old files have none.
  std::optional<ModelDescription> description;
  /// Args that the file may lack, in an argparse.Namespace; or None. Where the
  /// file has a number as well, that counts,
  PythonValue args;
  bool compare_args = true; ///< and another here is a CheckpointError
};

struct MegatronCheckpoint {
  ModelDescription description;
  NamedTensors tensors; ///< under Cairn's names; see model_parameters.h
  MegatronSplit split;
  double version = 0;
  std::optional<std::int64_t> iteration; ///< none: a release
  PythonValue args;                      ///< None where there are none
  /// What else the first rank has: rng_state, opt_param_scheduler, …
  std::vector<PythonValue::Member> others;
};

/// Reads a checkpoint of any split; a folder with a tracker file, or one
/// iteration's. A missing rank, ranks that contradict each other and models
/// that we do not know are a CheckpointError.
MegatronCheckpoint read_megatron(
    const std::filesystem::path& folder,
    const MegatronReadOptions& options = {});

struct MegatronWriteOptions {
  MegatronSplit split;
  std::optional<at::ScalarType> type;     ///< else as the tensors are
  std::optional<std::int64_t> iteration;  ///< none: a release
  std::int64_t vocabulary_multiple = 128; ///< times the tensor ranks: padding
  /// Kept, with what the model and the split say put in place.
  PythonValue args;
  std::vector<PythonValue::Member> others; ///< written to every rank's file
};

/// Writes files that Megatron-LM loads with --no-load-optim, version 3, and the
/// tracker file last. What cannot be cut so, or is no model of Megatron's, is a
/// ConfigError. Tensors are loaded one at a time.
void write_megatron(
    const std::filesystem::path& folder,
    const ModelDescription& description,
    const NamedTensors& tensors,
    const MegatronWriteOptions& options = {});

} // namespace cairn::checkpoints
